import { Redis } from '@upstash/redis';
import { nanoid } from 'nanoid';

const redis = Redis.fromEnv();

const STORE_IF_OWNER = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  redis.call("SET", KEYS[2], ARGV[2], "EX", ARGV[3])
  return 1
end
return 0`;

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

interface Options {
  /** seconds a value is kept */
  ttl: number;
  /** milliseconds the one who fills the cache has for it */
  fillTimeout?: number;
}

type Box<T> = { v: T };

const pause = (ms: number) => new Promise<void>((r) => setTimeout(r, ms));

/**
 * Read-through cache with stampede protection.
 *
 * One caller runs `load`, the others wait for its result. The lock is there to
 * save load on the origin, nothing more: a caller which waited in vain loads
 * the value for itself, and only the lock's owner writes to the cache, so that
 * a loader that was overtaken can't put back an older value.
 */
export async function cached<T>(key: string, load: () => Promise<T>, opts: Options): Promise<T> {
  const { ttl, fillTimeout = 8_000 } = opts;
  const cacheKey = `cache:{${key}}`;
  const lockKey = `fill:{${key}}`;

  const hit = await redis.get<Box<T>>(cacheKey);
  if (hit) return hit.v;

  const token = `t_${nanoid()}`;
  const deadline = Date.now() + fillTimeout;

  while (Date.now() < deadline) {
    if (await tryLock(lockKey, token, fillTimeout)) {
      try {
        const late = await redis.get<Box<T>>(cacheKey);
        if (late) return late.v;

        const value = await load();
        await redis
          .eval(STORE_IF_OWNER, [lockKey, cacheKey], [token, JSON.stringify({ v: value }), String(ttl)])
          .catch((err) => console.warn('cache write failed', key, err));
        return value;
      } finally {
        await redis.eval(UNLOCK, [lockKey], [token]).catch((err) => {
          console.warn('unlock failed, left to expire', key, err);
        });
      }
    }

    await pause(80 + Math.random() * 80);
    const filled = await redis.get<Box<T>>(cacheKey);
    if (filled) return filled.v;
  }

  return load();
}

async function tryLock(lockKey: string, token: string, ms: number): Promise<boolean> {
  const res = await redis.set(lockKey, token, { nx: true, px: ms });
  if (res === 'OK') return true;
  // The client retries over HTTP; an earlier try of ours may have gone through.
  return (await redis.get<string>(lockKey)) === token;
}
