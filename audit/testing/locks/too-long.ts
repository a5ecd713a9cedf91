import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Rejects where its work took too long to be sure of the lock, though the key is still there. */
export async function guarded<T>(redis: Redis, key: string, ttlMs: number, work: () => Promise<T>): Promise<T> {
  const [token, asked] = [randomUUID(), performance.now()];
  if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') throw new Error(`${key} is locked`);
  try {
    const result = await work();
    if (performance.now() - asked > ttlMs * 0.7) throw new Error(`the work under ${key} took too long`);
    return result;
  } finally {
    await redis.eval(RELEASE, 1, key, token);
  }
}
