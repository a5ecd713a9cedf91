import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool } from 'pg';
import { logger } from '@acme/logging';

/**
 * Invoice numbers have to be consecutive per legal entity (tax office rule), so
 * finalising a draft is serialised per entity. The Redis lock keeps the queue
 * short; the version column on invoice_counters is what decides in the end.
 */

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', {
  maxRetriesPerRequest: 2,
  commandTimeout: 2_000,
});
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  max: 10,
  connectionTimeoutMillis: 3_000,
});

const LOCK_TTL_MS = 30_000;
const ACQUIRE_BUDGET_MS = 5_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class EntityBusyError extends Error {
  constructor(entityId: string) {
    super(`legal entity ${entityId} is being invoiced elsewhere`);
    this.name = 'EntityBusyError';
  }
}

class EntityLock implements AsyncDisposable {
  private readonly key: string;
  private readonly token = randomUUID();

  private constructor(entityId: string) {
    this.key = `invoicing:entity:${entityId}`;
  }

  static async acquire(entityId: string): Promise<EntityLock> {
    const lock = new EntityLock(entityId);
    const giveUpAt = Date.now() + ACQUIRE_BUDGET_MS;
    for (;;) {
      try {
        const reply = await redis.set(lock.key, lock.token, 'PX', LOCK_TTL_MS, 'NX');
        if (reply === 'OK') return lock;
      } catch (err) {
        // the SET may have reached the server even though we saw no reply
        await lock[Symbol.asyncDispose]();
        throw err;
      }
      if (Date.now() >= giveUpAt) throw new EntityBusyError(entityId);
      await sleep(60 + Math.random() * 120);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await redis.eval(RELEASE, 1, this.key, this.token);
    } catch (err) {
      logger.warn({ err, key: this.key }, 'entity lock not released, will expire');
    }
  }
}

export async function finaliseInvoice(entityId: string, draftId: string): Promise<string> {
  await using _lock = await EntityLock.acquire(entityId);

  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query(`SET LOCAL statement_timeout = '4s'`);

    const draft = await client.query<{ number: string | null; total_cents: string }>(
      'SELECT number, total_cents FROM invoices WHERE id = $1 AND entity_id = $2 FOR UPDATE',
      [draftId, entityId],
    );
    if (draft.rowCount === 0) throw new Error(`invoice ${draftId} not found`);
    if (draft.rows[0].number !== null) {
      await client.query('ROLLBACK');
      return draft.rows[0].number;
    }

    const counter = await client.query<{ prefix: string; last_number: number; version: number }>(
      'SELECT prefix, last_number, version FROM invoice_counters WHERE entity_id = $1',
      [entityId],
    );
    const { prefix, last_number, version } = counter.rows[0];
    const next = last_number + 1;
    const number = `${prefix}-${String(next).padStart(6, '0')}`;

    const moved = await client.query(
      `UPDATE invoice_counters SET last_number = $1, version = version + 1
        WHERE entity_id = $2 AND version = $3`,
      [next, entityId, version],
    );
    if (moved.rowCount !== 1) throw new EntityBusyError(entityId);

    await client.query(
      `UPDATE invoices SET number = $1, status = 'final', finalised_at = now() WHERE id = $2`,
      [number, draftId],
    );
    await client.query('COMMIT');
    logger.info({ entityId, draftId, number }, 'invoice finalised');
    return number;
  } catch (err) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    client.release();
  }
}
