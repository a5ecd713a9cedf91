import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface SynchronizedOptions<A extends unknown[]> {
  key: (...args: A) => string;
  ttlMs?: number;
  waitMs?: number;
}

/**
 * Wraps an async function so that only one call per key runs at a time, across
 * all instances. The function gets an AbortSignal that fires before the lock expires.
 */
export function synchronized<A extends unknown[], R>(
  redis: Redis,
  options: SynchronizedOptions<A>,
  fn: (signal: AbortSignal, ...args: A) => Promise<R>,
): (...args: A) => Promise<R> {
  const { ttlMs = 20_000, waitMs = 5_000 } = options;

  return async (...args: A): Promise<R> => {
    const key = `sync:${options.key(...args)}`;
    const token = randomUUID();
    const giveUpAt = Date.now() + waitMs;

    let sentAt = Date.now();
    while ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') {
      if (Date.now() > giveUpAt) throw new Error(`Timed out waiting for ${key}`);
      await sleep(50 + Math.random() * 50);
      sentAt = Date.now();
    }

    try {
      const signal = AbortSignal.timeout(Math.max(1, sentAt + ttlMs - 2_000 - Date.now()));
      return fn(signal, ...args);
    } finally {
      await redis.eval(UNLOCK, 1, key, token).catch((err: Error) => {
        console.warn(`unlock ${key} failed, waiting for expiry`, err.message);
      });
    }
  };
}

export function createWallet(redis: Redis, db: Pool) {
  return {
    spend: synchronized(
      redis,
      { key: (userId: string, _cents: number) => `wallet:${userId}` },
      async (signal, userId: string, cents: number) => {
        const { rows } = await db.query('select balance from wallets where user_id = $1', [userId]);
        const balance = Number(rows[0]?.balance ?? 0);
        if (balance < cents) throw new Error('insufficient funds');
        signal.throwIfAborted();
        await db.query('update wallets set balance = $2 where user_id = $1', [userId, balance - cents]);
        return balance - cents;
      },
    ),
  };
}
