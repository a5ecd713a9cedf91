import { randomUUID } from 'node:crypto';
import type { Redis } from '@upstash/redis';

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export class SiteBusyError extends Error {}
export class LeaseExpiredError extends Error {}

/**
 * Politeness lock of the crawler: one worker per site.
 *
 *   const { using } = siteLocks(redis);
 *   await using('example.org', 20_000, async (signal) => crawl('example.org', signal));
 */
export function siteLocks(redis: Redis) {
  const keyOf = (site: string) => `crawl:site:${site.toLowerCase()}`;

  const unlock = async (key: string, token: string) => {
    await redis.eval<[string], number>(UNLOCK, [key], [token]).catch(() => 0);
  };

  async function using<T>(site: string, ttl: number, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = keyOf(site);
    const token = `w-${randomUUID()}`;
    const safety = Math.ceil(ttl * 0.02) + 20;

    const asked = performance.now();
    let mine = false;
    try {
      mine = (await redis.set(key, token, { nx: true, px: ttl })) === 'OK';
    } finally {
      // a null can be the second attempt of the HTTP client, see its retry option
      if (!mine) await unlock(key, token);
    }
    if (!mine) throw new SiteBusyError(site);

    const controller = new AbortController();
    const expire = () => controller.abort(new LeaseExpiredError(site));
    const remaining = asked + ttl - safety - performance.now();
    if (remaining <= 0) {
      await unlock(key, token);
      throw new SiteBusyError(site);
    }
    let deadline = setTimeout(expire, remaining);
    let finished = false;
    let next: NodeJS.Timeout;

    const keepAlive = async () => {
      const started = performance.now();
      try {
        // XX: only if the lock is still there. Once it has expired this gives
        // null and we stop, we never bring an expired lock back to life.
        const kept = await redis.set(key, token, { xx: true, px: ttl });
        if (finished || controller.signal.aborted) return;
        if (kept !== 'OK') {
          expire();
          return;
        }
        clearTimeout(deadline);
        deadline = setTimeout(expire, Math.max(0, started + ttl - safety - performance.now()));
      } catch {
        // network hiccup, the deadline remains where it was
        if (finished || controller.signal.aborted) return;
      }
      next = setTimeout(keepAlive, ttl / 3);
    };
    next = setTimeout(keepAlive, ttl / 3);

    try {
      const result = await fn(controller.signal);
      controller.signal.throwIfAborted();
      return result;
    } finally {
      finished = true;
      clearTimeout(next);
      clearTimeout(deadline);
      await unlock(key, token);
    }
  }

  return { using };
}
