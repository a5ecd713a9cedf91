import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

export interface MutexOptions {
  name: string;
  ttlMs?: number;
  retryMs?: number;
  timeoutMs?: number;
}

export interface Mutex {
  runExclusive<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T>;
}

export class MutexTimeoutError extends Error {}

// A resent SET (ioredis repeats commands after a reconnect) finds its own first
// copy. We treat "the key already carries our id" as success, so a lost reply
// does not block us for a whole TTL.
const ACQUIRE = `
local holder = redis.call('get', KEYS[1])
if holder == ARGV[1] or not holder then
  redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const wait = (ms: number) => new Promise<void>((r) => setTimeout(r, ms));

/**
 * Creates a mutex, typically once per module:
 *
 *   const seatMutex = createMutex(redis, { name: 'seat-map' });
 *   app.post('/seats', () => seatMutex.runExclusive(async (signal) => ...));
 */
export function createMutex(redis: Redis, options: MutexOptions): Mutex {
  const { name, ttlMs = 8_000, retryMs = 60, timeoutMs = 4_000 } = options;
  const key = `mutex:${name}`;
  // unguessable id of this owner, nobody else can release our key
  const ownerId = randomUUID();
  const margin = Math.ceil(ttlMs * 0.01) + 2;

  const release = () => redis.eval(RELEASE, 1, key, ownerId);

  async function acquire(): Promise<number> {
    const giveUpAt = performance.now() + timeoutMs;
    while (performance.now() < giveUpAt) {
      const asked = performance.now(); // the TTL counts from here for us
      const got = await redis.eval(ACQUIRE, 1, key, ownerId, ttlMs);
      const validUntil = asked + ttlMs - margin;
      if (got === 1) {
        if (performance.now() < validUntil) return validUntil;
        await release(); // granted, but too slowly to be of any use
      }
      await wait(retryMs + Math.random() * retryMs);
    }
    throw new MutexTimeoutError(`could not get ${key} within ${timeoutMs} ms`);
  }

  return {
    async runExclusive(fn) {
      const validUntil = await acquire();
      const controller = new AbortController();
      const timer = setTimeout(
        () => controller.abort(new Error(`${key} expired`)),
        Math.max(0, validUntil - performance.now()),
      );
      try {
        const result = await fn(controller.signal);
        controller.signal.throwIfAborted();
        return result;
      } finally {
        clearTimeout(timer);
        await release().catch(() => undefined); // expires by itself otherwise
      }
    },
  };
}
