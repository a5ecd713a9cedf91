import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool } from 'pg';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 2_000,
});

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

export class LockBusyError extends Error {}

async function withLock<T>(key: string, ttlMs: number, fn: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  const giveUpAt = Date.now() + 5_000;
  while ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') {
    if (Date.now() > giveUpAt) throw new LockBusyError(key);
    await sleep(50 + Math.random() * 100);
  }
  try {
    return await fn();
  } finally {
    await redis
      .eval(RELEASE, 1, key, token)
      .catch((err) => console.error('could not release', key, err));
  }
}

/** A copy came back: put it on the hold shelf for the patron who waits longest. */
export function shelveForNextPatron(titleId: number, copyId: number): Promise<number | null> {
  return withLock(`lock:title:${titleId}`, 20_000, async () => {
    const client = await pool.connect();
    let failed = false;
    try {
      await client.query('BEGIN');
      const next = await client.query<{ id: number }>(
        `SELECT id FROM holds
          WHERE title_id = $1 AND status = 'waiting'
          ORDER BY placed_at, id LIMIT 1
          FOR UPDATE`,
        [titleId],
      );
      const hold = next.rows[0];
      const copy = await client.query(
        `UPDATE copies SET status = $2 WHERE id = $1 AND status = 'returned'`,
        [copyId, hold ? 'on_hold_shelf' : 'available'],
      );
      if (copy.rowCount !== 1) throw new Error(`copy ${copyId} was already handled`);
      if (hold) {
        const updated = await client.query(
          `UPDATE holds SET status = 'ready', copy_id = $2, ready_at = now()
            WHERE id = $1 AND status = 'waiting'`,
          [hold.id, copyId],
        );
        if (updated.rowCount !== 1) throw new Error(`hold ${hold.id} is gone`);
      }
      await client.query('COMMIT');
      return hold?.id ?? null;
    } catch (err) {
      await client.query('ROLLBACK').catch(() => {
        failed = true;
      });
      throw err;
    } finally {
      client.release(failed);
    }
  });
}
