import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';

const HOST = randomBytes(8).toString('hex');
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** All of a host's locks have its name for a value. */
export async function duringImport<T>(redis: Redis, feed: string, importIt: () => Promise<T>): Promise<T | null> {
  const key = `import:${feed}`;
  if ((await redis.set(key, HOST, 'PX', 4_000, 'NX')) !== 'OK') return null;
  try {
    return await importIt();
  } finally {
    await redis.eval(RELEASE, 1, key, HOST);
  }
}
