import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool } from 'pg';

const redis = new Redis({ host: process.env.REDIS_HOST, maxRetriesPerRequest: 2, commandTimeout: 2_000 });
redis.on('error', (err) => console.error('redis', err.message));

const pool = new Pool({ connectionTimeoutMillis: 2_000, statement_timeout: 3_000, query_timeout: 3_500 });

const UNLOCK_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

export class LockTimeoutError extends Error {
  constructor(public readonly resource: string) {
    super(`Could not lock ${resource}`);
    this.name = 'LockTimeoutError';
  }
}

export interface LockOptions {
  ttlMs?: number;
  waitMs?: number;
}

export async function withLock<T>(
  resource: string,
  fn: () => Promise<T>,
  { ttlMs = 30_000, waitMs = 5_000 }: LockOptions = {},
): Promise<T> {
  const key = `lock:${resource}`;
  const token = randomUUID();
  const deadline = Date.now() + waitMs;

  while ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') {
    if (Date.now() > deadline) throw new LockTimeoutError(resource);
    await wait(50 + Math.random() * 100);
  }

  try {
    return fn();
  } finally {
    try {
      await redis.eval(UNLOCK_SCRIPT, 1, key, token);
    } catch (err) {
      console.warn(`failed to unlock ${key}`, err);
    }
  }
}

export function reserve(sku: string, orderId: string, qty: number): Promise<boolean> {
  return withLock(`stock:${sku}`, async () => {
    const { rows } = await pool.query<{ available: number }>(
      'SELECT available FROM stock WHERE sku = $1',
      [sku],
    );
    const available = rows[0]?.available ?? 0;
    if (available < qty) return false;

    await pool.query(
      `WITH s AS (UPDATE stock SET available = $2 WHERE sku = $1 RETURNING sku)
       INSERT INTO reservations (order_id, sku, qty) SELECT $3, sku, $4 FROM s`,
      [sku, available - qty, orderId, qty],
    );
    return true;
  });
}
