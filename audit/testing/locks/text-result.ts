import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Gives what its work has given, which has to be a text. */
export async function rendered(redis: Redis, page: string, render: () => Promise<string>): Promise<string> {
  const token = randomUUID();
  if ((await redis.set(`render:${page}`, token, 'PX', 8_000, 'NX')) !== 'OK') return 'is being rendered';
  try {
    const text = await render();
    if (typeof text !== 'string') throw new TypeError('no text was rendered');
    return text.trim();
  } finally {
    await redis.eval(RELEASE, 1, `render:${page}`, token);
  }
}
