import { Redis } from '@upstash/redis';

/**
 * Read-through cache for edge functions. When a popular entry runs out we do
 * not want 500 lambdas to hit the origin at once, so one of them gets a little
 * lock and fills the entry while the rest wait a moment.
 *
 * It only spares the origin. Two loads at the same time are no harm, and if
 * Redis is down we just load.
 */

type Entry<T> = { v: T };

export type CachedOptions = {
  /** seconds the value may be served */
  ttl: number;
  /** ms one instance may take to fill the entry before another has a go */
  fillMs?: number;
  /** ms to wait for the instance that is filling */
  waitMs?: number;
};

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const redis = Redis.fromEnv();

const pause = (ms: number) => new Promise<void>((r) => setTimeout(r, ms));

async function read<T>(key: string): Promise<Entry<T> | null> {
  try {
    return await redis.get<Entry<T>>(key);
  } catch (err) {
    console.warn('cache read failed', key, err);
    return null;
  }
}

async function write<T>(key: string, v: T, ttl: number) {
  try {
    // spread the expiry a bit
    await redis.set(key, { v }, { ex: Math.ceil(ttl * (0.9 + Math.random() * 0.2)) });
  } catch (err) {
    console.warn('cache write failed', key, err);
  }
}

export async function cached<T>(
  name: string,
  load: () => Promise<T>,
  { ttl, fillMs = 8_000, waitMs = 5_000 }: CachedOptions,
): Promise<T> {
  const key = `c:${name}`;
  const lockKey = `c:${name}:fill`;

  const hit = await read<T>(key);
  if (hit) return hit.v;

  const token = crypto.randomUUID();
  const until = Date.now() + waitMs;

  do {
    let mine = false;
    try {
      mine = (await redis.set(lockKey, token, { nx: true, px: fillMs })) === 'OK';
    } catch (err) {
      console.warn('cache lock failed', name, err);
      break;
    }

    if (mine) {
      try {
        // somebody may have finished between our read and our lock
        const again = await read<T>(key);
        if (again) return again.v;
        const v = await load();
        await write(key, v, ttl);
        return v;
      } finally {
        await redis.eval(UNLOCK, [lockKey], [token]).catch(() => {});
      }
    }

    await pause(80 + Math.random() * 120);
    const filled = await read<T>(key);
    if (filled) return filled.v;
  } while (Date.now() < until);

  const v = await load();
  await write(key, v, ttl);
  return v;
}
