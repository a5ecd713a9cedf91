import Redis from 'ioredis';
import Stripe from 'stripe';
import { v4 as uuid } from 'uuid';
import { db } from '../db';
import { logger } from './logger';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!, { timeout: 8_000, maxNetworkRetries: 0 });

const RENEW = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 0`;
const RELEASE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0`;

export class LockLostError extends Error {
  constructor(key: string) {
    super(`lock ${key} is no longer ours`);
    this.name = 'LockLostError';
  }
}

export async function withLock<T>(
  key: string,
  ttlMs: number,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<{ ran: true; value: T } | { ran: false }> {
  const token = uuid();
  const askedAt = Date.now();
  if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') return { ran: false };

  const ac = new AbortController();
  let validUntil = askedAt + ttlMs;
  let finished = false;

  const beat = setInterval(async () => {
    if (Date.now() >= validUntil - ttlMs / 3) {
      clearInterval(beat);
      ac.abort(new LockLostError(key));
      return;
    }
    const sentAt = Date.now();
    try {
      const extended = await redis.eval(RENEW, 1, key, token, ttlMs);
      if (finished) return;
      if (extended === 1) {
        validUntil = Math.max(validUntil, sentAt + ttlMs);
      } else {
        clearInterval(beat);
        ac.abort(new LockLostError(key));
      }
    } catch (err) {
      // one missed beat is fine, the check at the top of the next one decides
      logger.warn({ err, key }, 'renewal of lock failed');
    }
  }, ttlMs / 6);

  try {
    return { ran: true, value: await fn(ac.signal) };
  } finally {
    finished = true;
    clearInterval(beat);
    await redis.eval(RELEASE, 1, key, token).catch((err) => logger.warn({ err, key }, 'release failed'));
  }
}

interface DueSubscription {
  id: string;
  cycle: number;
  customer: string;
  payment_method: string;
  amount_cents: number;
  currency: string;
}

async function renewOne(sub: DueSubscription): Promise<void> {
  const intent = await stripe.paymentIntents.create(
    {
      amount: sub.amount_cents,
      currency: sub.currency,
      customer: sub.customer,
      payment_method: sub.payment_method,
      off_session: true,
      confirm: true,
    },
    { idempotencyKey: `renewal:${sub.id}:${sub.cycle}` },
  );
  await db.query(
    `update subscriptions
        set cycle = cycle + 1, period_end = period_end + billing_interval, last_intent = $3
      where id = $1 and cycle = $2`,
    [sub.id, sub.cycle, intent.id],
  );
}

export async function runRenewals(): Promise<number> {
  const outcome = await withLock('billing:renewals', 30_000, async (signal) => {
    const { rows } = await db.query(
      `select id, cycle, customer, payment_method, amount_cents, currency
         from subscriptions where status = 'active' and period_end <= now()
        order by period_end limit 500`,
    );
    let renewed = 0;
    for (const sub of rows as DueSubscription[]) {
      signal.throwIfAborted();
      try {
        await renewOne(sub);
        renewed += 1;
      } catch (err) {
        // dunning picks up whatever is still overdue tomorrow morning
        logger.error({ err, subscription: sub.id }, 'renewal failed');
      }
    }
    return renewed;
  });
  return outcome.ran ? outcome.value : 0;
}
