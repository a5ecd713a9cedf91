import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Held only where a replica has the key. */
export async function acquire(
  redis: Redis,
  name: string,
  ttlMs: number,
): Promise<{ name: string; token: string } | null> {
  const token = randomUUID();
  if ((await redis.set(name, token, 'PX', ttlMs, 'NX')) !== 'OK') return null;
  if (Number(await redis.call('WAIT', 1, 200).catch(() => 0)) >= 1) return { name, token };
  await redis.eval(UNLOCK, 1, name, token);
  return null;
}

export async function release(redis: Redis, { name, token }: { name: string; token: string }): Promise<void> {
  await redis.eval(UNLOCK, 1, name, token);
}
