import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool, type PoolClient } from 'pg';
import pino from 'pino';
import { config } from '../config';

const log = pino({ name: 'invoice-numbers' });

const redis = new Redis(config.redisUrl, { commandTimeout: 1_000, maxRetriesPerRequest: 1 });

// Every statement is cut off at 3 s by the server and at 4 s by the client.
const pool = new Pool({
  connectionString: config.databaseUrl,
  connectionTimeoutMillis: 3_000,
  statement_timeout: 3_000,
  query_timeout: 4_000,
  max: 20,
});

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class LockBusyError extends Error {
  constructor(readonly key: string) {
    super(`lock ${key} is busy`);
    this.name = 'LockBusyError';
  }
}

interface LockOptions {
  ttlMs?: number;
  waitMs?: number;
}

export async function withLock<T>(name: string, fn: () => Promise<T>, opts: LockOptions = {}): Promise<T> {
  const { ttlMs = 45_000, waitMs = 5_000 } = opts;
  const key = `lock:${name}`;
  const token = randomUUID();
  const giveUpAt = Date.now() + waitMs;

  while ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') {
    if (Date.now() >= giveUpAt) throw new LockBusyError(key);
    await sleep(40 + Math.random() * 80);
  }

  try {
    return await fn();
  } finally {
    await redis.eval(UNLOCK, 1, key, token).catch((err) => {
      log.warn({ err, key }, 'unlock failed, key will lapse by itself');
    });
  }
}

async function inTransaction<T>(fn: (c: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let failure: Error | undefined;
  try {
    await client.query('BEGIN');
    const out = await fn(client);
    await client.query('COMMIT');
    return out;
  } catch (err) {
    failure = err as Error;
    await client.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    client.release(failure);
  }
}

/**
 * German tax law wants numbers without holes per tenant and year, so a
 * sequence will not do: a rolled-back insert must give its number back.
 * (tenant_id, year, number) and draft_id are unique indexes as well.
 */
export async function issueInvoice(tenantId: string, draftId: string, year: number): Promise<number> {
  return withLock(`invoice-number:${tenantId}:${year}`, () =>
    inTransaction(async (c) => {
      const { rows } = await c.query<{ next: number }>(
        'SELECT COALESCE(MAX(number), 0) + 1 AS next FROM invoices WHERE tenant_id = $1 AND year = $2',
        [tenantId, year],
      );
      const number = Number(rows[0].next);
      const res = await c.query(
        `INSERT INTO invoices (tenant_id, year, number, draft_id, issued_at)
         SELECT tenant_id, $2::int, $3::int, id, now() FROM invoice_drafts WHERE id = $4 AND tenant_id = $1`,
        [tenantId, year, number, draftId],
      );
      if (res.rowCount !== 1) throw new Error(`draft ${draftId} not found`);
      log.info({ tenantId, year, number }, 'invoice issued');
      return number;
    }),
  );
}
