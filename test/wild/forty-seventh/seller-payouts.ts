import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';
import { nanoid } from 'nanoid';
import { fetchFxRates } from '../fx/client';

const log = pino({ name: 'seller-payouts' });
const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 2 });
const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 10_000 });

const LEASE_MS = 30_000;
const SAFETY_MS = 2_000;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class LeaseLostError extends Error {
  constructor(key: string) {
    super(`lease on ${key} is gone`);
    this.name = 'LeaseLostError';
  }
}

type LeaseResult<T> = { ran: true; value: T } | { ran: false };

async function withLease<T>(key: string, fn: (signal: AbortSignal) => Promise<T>): Promise<LeaseResult<T>> {
  const token = nanoid(32);
  const askedAt = performance.now();
  const reply = await redis.set(key, token, 'PX', LEASE_MS, 'NX');
  if (reply !== 'OK') return { ran: false };

  const ctl = new AbortController();
  let deadline: NodeJS.Timeout | undefined;
  const arm = (from: number) => {
    clearTimeout(deadline);
    const left = LEASE_MS - SAFETY_MS - (performance.now() - from);
    deadline = setTimeout(() => ctl.abort(new LeaseLostError(key)), Math.max(0, left));
  };
  arm(askedAt);

  const heartbeat = setInterval(async () => {
    const sentAt = performance.now();
    try {
      const kept = await redis.eval(EXTEND, 1, key, token, LEASE_MS);
      if (kept === 1) arm(sentAt);
      else ctl.abort(new LeaseLostError(key));
    } catch (err) {
      log.warn({ err, key }, 'could not extend lease, will try again');
    }
  }, LEASE_MS / 4);

  try {
    return { ran: true, value: await fn(ctl.signal) };
  } finally {
    clearInterval(heartbeat);
    clearTimeout(deadline);
    await redis.eval(RELEASE, 1, key, token).catch((err) => log.warn({ err, key }, 'lease release failed'));
  }
}

/** Collects everything a seller has earned until `cutoff` into one pending payout. */
export async function buildPayout(sellerId: string, currency: string, cutoff: Date) {
  const result = await withLease(`lease:payout:${sellerId}`, async (signal) => {
    const rates = await fetchFxRates(currency, { signal });
    signal.throwIfAborted();

    const payoutId = nanoid();
    const { rows } = await pool.query(
      `WITH claimed AS (
         UPDATE ledger_entries
            SET payout_id = $1
          WHERE seller_id = $2 AND payout_id IS NULL AND booked_at < $3
            AND currency = ANY($6)
          RETURNING amount_cents, currency
       )
       INSERT INTO payouts (id, seller_id, currency, amount_cents, status)
       SELECT $1, $2, $4, round(sum(c.amount_cents * (r.value)::numeric)), 'pending'
         FROM claimed c
         JOIN jsonb_each_text($5::jsonb) r ON r.key = c.currency
       HAVING count(*) > 0
       RETURNING id, amount_cents`,
      [payoutId, sellerId, cutoff, currency, JSON.stringify(rates), Object.keys(rates)],
    );
    return rows[0] ?? null;
  });

  if (!result.ran) {
    log.info({ sellerId }, 'payout already being built elsewhere');
    return null;
  }
  return result.value;
}
