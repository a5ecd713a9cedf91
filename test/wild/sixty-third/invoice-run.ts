import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { format, startOfMonth, subMonths } from 'date-fns';
import Redis from 'ioredis';
import { db } from '../db';
import { logger } from '../logger';

const LOCK_TTL_MS = 45_000;
const RENEW_EVERY_MS = 10_000;
// Upper bound for one customer; the transaction is cancelled after this.
const CUSTOMER_BUDGET_MS = 8_000;

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

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  commandTimeout: 3_000,
  maxRetriesPerRequest: 1,
});

interface Lease {
  readonly signal: AbortSignal;
  /** Throws unless the lease is good for at least `budgetMs` more. */
  ensure(budgetMs: number): void;
  release(): Promise<void>;
}

async function startLease(key: string): Promise<Lease | null> {
  const token = randomUUID();
  const requestedAt = performance.now();
  const reply = await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
  if (reply !== 'OK') return null;

  let validUntil = requestedAt + LOCK_TTL_MS;
  const lost = new AbortController();
  const stopped = new AbortController();

  const heartbeat = (async () => {
    while (!stopped.signal.aborted && !lost.signal.aborted) {
      try {
        await delay(RENEW_EVERY_MS, undefined, { signal: stopped.signal });
      } catch {
        return;
      }
      const sentAt = performance.now();
      try {
        const renewed = await redis.eval(RENEW, 1, key, token, LOCK_TTL_MS);
        if (renewed === 1) {
          validUntil = sentAt + LOCK_TTL_MS;
        } else {
          lost.abort(new Error(`lease on ${key} was lost`));
        }
      } catch (err) {
        // A single failed round trip is fine while there is lease time left.
        logger.warn({ err, key }, 'lease renewal failed');
        if (performance.now() >= validUntil) {
          lost.abort(new Error(`lease on ${key} ran out`));
        }
      }
    }
  })();

  return {
    signal: lost.signal,
    ensure(budgetMs) {
      lost.signal.throwIfAborted();
      if (performance.now() + budgetMs >= validUntil) {
        throw new Error(`lease on ${key} is too short to go on`);
      }
    },
    async release() {
      stopped.abort();
      await heartbeat;
      await redis.eval(RELEASE, 1, key, token);
    },
  };
}

async function invoiceCustomer(customerId: string, period: string, signal: AbortSignal) {
  await db.transaction({ timeoutMs: CUSTOMER_BUDGET_MS, signal }, async (tx) => {
    const usage = await tx.usageTotals(customerId, period);
    if (usage.lines.length === 0) return;
    await tx.query(
      `INSERT INTO invoices (customer_id, period, total_cents, lines)
       VALUES ($1, $2, $3, $4)
       ON CONFLICT (customer_id, period) DO NOTHING`,
      [customerId, period, usage.totalCents, JSON.stringify(usage.lines)],
    );
  });
}

/** Cron entry point: 02:15 on the first of each month, on every app server. */
export async function runMonthlyInvoices(now: Date = new Date()): Promise<void> {
  const period = format(startOfMonth(subMonths(now, 1)), 'yyyy-MM');
  const key = `lock:invoice-run:${period}`;

  const lease = await startLease(key);
  if (!lease) {
    logger.info({ period }, 'invoice run is already going on elsewhere');
    return;
  }

  try {
    let count = 0;
    for await (const customer of db.customersDueFor(period)) {
      lease.ensure(CUSTOMER_BUDGET_MS);
      await invoiceCustomer(customer.id, period, lease.signal);
      count += 1;
    }
    lease.ensure(CUSTOMER_BUDGET_MS);
    await db.transaction({ timeoutMs: CUSTOMER_BUDGET_MS, signal: lease.signal }, (tx) =>
      tx.query('UPDATE billing_periods SET invoiced_at = now() WHERE period = $1', [period]),
    );
    logger.info({ period, count }, 'invoice run finished');
  } finally {
    await lease.release().catch((err) => logger.warn({ err, key }, 'could not release lease'));
  }
}
