import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { logger } from '../logger';

const TTL_MS = 30_000;
const RENEW_EVERY_MS = 8_000;
const SAFETY_MS = 2_000;

const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export class LeaseBusyError extends Error {
  constructor(name: string) {
    super(`lease ${name} is held by another process`);
  }
}
export class LeaseLostError extends Error {
  constructor(name: string) {
    super(`lease ${name} was lost`);
  }
}

export interface Lease {
  signal: AbortSignal;
  /** Throws once the lease is gone or can no longer be trusted. Call before every write. */
  check(): void;
}

export async function withLease<T>(redis: Redis, name: string, work: (lease: Lease) => Promise<T>): Promise<T> {
  const key = `billing:lease:${name}`;
  const token = randomUUID();
  const lost = new AbortController();
  const stop = new AbortController();

  // The clock starts before the command leaves, so our view always ends before Redis's.
  const sentAt = performance.now();
  const reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
  if (reply !== 'OK') throw new LeaseBusyError(name);

  let validUntil = sentAt + TTL_MS - SAFETY_MS;
  const check = () => {
    if (performance.now() >= validUntil) lost.abort(new LeaseLostError(name));
    lost.signal.throwIfAborted();
  };

  let watchdog: NodeJS.Timeout | undefined;
  const arm = () => {
    clearTimeout(watchdog);
    if (stop.signal.aborted) return;
    watchdog = setTimeout(() => lost.abort(new LeaseLostError(name)), Math.max(0, validUntil - performance.now()));
  };

  const keepAlive = async () => {
    while (!stop.signal.aborted && !lost.signal.aborted) {
      try {
        await sleep(RENEW_EVERY_MS, undefined, { signal: stop.signal });
      } catch {
        return;
      }
      const at = performance.now();
      try {
        const renewed = await redis.eval(RENEW, 1, key, token, TTL_MS);
        if (stop.signal.aborted) return;
        if (renewed !== 1) {
          lost.abort(new LeaseLostError(name));
          return;
        }
        validUntil = at + TTL_MS - SAFETY_MS;
        arm();
      } catch (err) {
        // Redis may be back for the next round; if not, the watchdog ends the run.
        logger.warn({ err, key }, 'lease renewal failed');
      }
    }
  };

  try {
    check();
    arm();
    void keepAlive();
    return await work({ signal: lost.signal, check });
  } finally {
    stop.abort();
    clearTimeout(watchdog);
    await redis.eval(RELEASE, 1, key, token).catch((err) => logger.warn({ err, key }, 'lease release failed, will expire'));
  }
}

export async function runBilling(redis: Redis, pool: Pool, tenantId: string, period: string): Promise<number> {
  return withLease(redis, `${tenantId}:${period}`, async (lease) => {
    const { rows } = await pool.query<{ id: string; amount_cents: number }>(
      'select id, amount_cents from usage_totals where tenant_id = $1 and period = $2 and closed order by id',
      [tenantId, period],
    );
    let created = 0;
    for (const row of rows) {
      lease.check();
      // unique (tenant_id, period, usage_total_id): a row that slipped in elsewhere is not billed again
      const res = await pool.query(
        `insert into invoices (tenant_id, period, usage_total_id, amount_cents)
         values ($1, $2, $3, $4)
         on conflict (tenant_id, period, usage_total_id) do nothing`,
        [tenantId, period, row.id, row.amount_cents],
      );
      created += res.rowCount ?? 0;
    }
    logger.info({ tenantId, period, created, total: rows.length }, 'billing run finished');
    return created;
  });
}
