import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export interface KeepaliveLock {
  readonly key: string;
  readonly signal: AbortSignal;
  release(): Promise<boolean>;
}

const COMPARE_AND_DELETE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

/**
 * Takes `key` and keeps it alive until release() is called. When the lock could not be
 * kept, `signal` is aborted and the holder should stop what it is doing.
 */
export async function lockWithKeepalive(
  redis: Redis,
  key: string,
  { ttl = 6_000, timeout = 30_000 }: { ttl?: number; timeout?: number } = {},
): Promise<KeepaliveLock> {
  const token = randomUUID();
  const until = Date.now() + timeout;

  while ((await redis.set(key, token, 'PX', ttl, 'NX')) !== 'OK') {
    if (Date.now() >= until) throw new Error(`could not get ${key} within ${timeout} ms`);
    await sleep(100 + Math.random() * 100);
  }

  const controller = new AbortController();
  let failures = 0;

  const timer = setInterval(async () => {
    try {
      const kept = await redis.pexpire(key, ttl);
      failures = 0;
      if (kept === 0) fail('expired');
    } catch (err) {
      if (++failures >= 2) fail((err as Error).message);
    }
  }, ttl / 3);

  function fail(reason: string) {
    clearInterval(timer);
    controller.abort(new Error(`${key}: ${reason}`));
  }

  return {
    key,
    signal: controller.signal,
    async release() {
      clearInterval(timer);
      return (await redis.eval(COMPARE_AND_DELETE, 1, key, token)) === 1;
    },
  };
}

/** Convenience wrapper. */
export async function exclusively<T>(
  redis: Redis,
  key: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const lock = await lockWithKeepalive(redis, key);
  try {
    const result = await work(lock.signal);
    lock.signal.throwIfAborted();
    return result;
  } finally {
    await lock.release().catch((e: Error) => console.warn(`${key}: ${e.message}`));
  }
}
