import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

const keyFor = (orderId: string) => `lock:order:${orderId}`;

/** Takes the lock of an order, or gives null if somebody else is working on it. */
export async function acquireOrderLock(redis: Redis, orderId: string, ttlMs: number): Promise<string | null> {
  const token = randomUUID();
  const reply = await redis.set(keyFor(orderId), token, 'PX', ttlMs, 'NX');
  return reply === 'OK' ? token : null;
}

export async function releaseOrderLock(redis: Redis, orderId: string, token: string): Promise<boolean> {
  const deleted = await redis.eval(RELEASE, 1, keyFor(orderId), token);
  return deleted === 1;
}
