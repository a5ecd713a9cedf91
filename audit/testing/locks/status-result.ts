import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

type Result =
  | { readonly status: 'held'; readonly token: string }
  | { readonly status: 'taken'; readonly forMs: number };

/** An object is given in any case: its status says which. */
export async function acquire(redis: Redis, key: string, ttlMs: number): Promise<Result> {
  const token = randomUUID();
  if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK') return { status: 'held', token };
  return { status: 'taken', forMs: await redis.pttl(key) };
}

export async function release(redis: Redis, key: string, token: string): Promise<void> {
  await redis.eval(RELEASE, 1, key, token);
}
