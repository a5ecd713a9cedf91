import { Redis } from '@upstash/redis';

/**
 * Read-through cache with stampede protection for serverless functions.
 *
 * What it promises:
 *  - normally one caller loads a missing key while the others wait for it;
 *  - a value loaded before `invalidate()` is never stored after it.
 * What it does not promise: that the loader never runs twice at once. When it
 * is slower than `lockMs`, or a waiter loses patience, there are two loads. The
 * loaders only read, so this costs time and nothing else.
 */
export interface CacheOptions {
  ttlSeconds?: number;
  lockMs?: number;
  waitMs?: number;
}

type Boxed<T> = { v: T };

const STORE_AND_UNLOCK = `
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
redis.call('DEL', KEYS[2])
return 1
`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

const sleep = (ms: number) => new Promise<void>((r) => setTimeout(r, ms));

export function createCache(redis: Redis, namespace: string, defaults: CacheOptions = {}) {
  const cacheKey = (id: string) => `${namespace}:{${id}}:value`;
  const lockKey = (id: string) => `${namespace}:{${id}}:loading`;

  async function get<T>(id: string, load: () => Promise<T>, options: CacheOptions = {}): Promise<T> {
    const { ttlSeconds = 300, lockMs = 10_000, waitMs = 5_000 } = { ...defaults, ...options };
    const giveUpAt = Date.now() + waitMs;
    const token = crypto.randomUUID();

    try {
      for (;;) {
        const hit = await redis.get<Boxed<T>>(cacheKey(id));
        if (hit !== null) return hit.v;

        const won = await redis.set(lockKey(id), token, { nx: true, px: lockMs });
        if (won === 'OK') break;
        if (Date.now() >= giveUpAt) return await loadUncached(load);
        await sleep(50 + Math.random() * 100);
      }
    } catch (err) {
      if (err instanceof LoadError) throw err.cause;
      console.warn(`cache ${namespace} unavailable:`, err);
      return load();
    }

    let value: T;
    try {
      value = await load();
    } catch (err) {
      await redis.eval(UNLOCK, [lockKey(id)], [token]).catch(() => undefined);
      throw err;
    }

    try {
      // 0 means that our turn ended: the lock ran out or the key was invalidated.
      // What we loaded may be old by now. Good enough for this request, not for others.
      await redis.eval(
        STORE_AND_UNLOCK,
        [cacheKey(id), lockKey(id)],
        [token, JSON.stringify({ v: value }), String(ttlSeconds)],
      );
    } catch (err) {
      console.warn(`cache ${namespace}: could not store ${id}:`, err);
    }
    return value;
  }

  /**
   * Call after the source has changed. Removes the lock as well, on purpose,
   * whichever process holds it: a load in flight began before the change and thereby loses
   * its right to store the result.
   */
  async function invalidate(id: string): Promise<void> {
    await redis.del(cacheKey(id), lockKey(id));
  }

  return { get, invalidate };
}

/** Tells an error of the loader apart from an error of Redis. */
class LoadError extends Error {
  constructor(readonly cause: unknown) {
    super('load failed');
  }
}

async function loadUncached<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (err) {
    throw new LoadError(err);
  }
}

export const productPages = createCache(Redis.fromEnv(), 'product-page', { ttlSeconds: 600 });
