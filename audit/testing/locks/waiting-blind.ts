import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

export { release } from './waiting.js';

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
