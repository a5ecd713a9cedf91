import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Waits for a replica, for some time. */
export async function acquire(
  redis: Redis,
  name: string,
  ttlMs: number,
): Promise<{ name: string; token: string } | null> {
  const token = randomUUID();
  if ((await redis.set(name, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;
  await redis.call('WAIT', 1, 200);
  return { name, token };
}

export async function release(redis: Redis, { name, token }: { name: string; token: string }): Promise<void> {
  await redis.eval(UNLOCK, 1, name, token);
}
