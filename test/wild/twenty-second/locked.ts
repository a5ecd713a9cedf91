import { randomUUID } from 'node:crypto';
import type { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;
type Hold = { token: string; depth: number; lost: AbortController; stop(): void };
type Options<A extends unknown[]> = { redis: Client; key: (...args: A) => string; ttlMs?: number };

export class LockedError extends Error {}

const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

const holds = new Map<string, Hold>();

async function acquire(redis: Client, key: string, ttlMs: number): Promise<Hold> {
  const token = randomUUID();
  let since = performance.now();
  if ((await redis.set(key, token, { NX: true, PX: ttlMs })) !== 'OK') throw new LockedError(key);

  const lost = new AbortController();
  const lose = () => lost.abort(new LockedError(`${key} was lost`));
  let stopped = false;
  let guard: NodeJS.Timeout;
  const arm = () => {
    guard = setTimeout(lose, Math.max(0, since + ttlMs * 0.8 - performance.now()));
  };
  arm();
  const beat = setInterval(async () => {
    const sentAt = performance.now();
    const extended = await redis
      .eval(EXTEND, { keys: [key], arguments: [token, String(ttlMs)] })
      .catch(() => 0);
    if (stopped) return;
    if (extended !== 1) return lose();
    since = sentAt;
    clearTimeout(guard);
    arm();
  }, ttlMs / 4);

  const stop = () => {
    stopped = true;
    clearInterval(beat);
    clearTimeout(guard);
  };
  return { token, depth: 0, lost, stop };
}

/**
 * Wraps a function so that it runs under a lock:
 *
 *   const closeMonth = locked({ redis, key: (id: string) => `books:${id}` })(
 *     async (signal, id) => { ... },
 *   );
 *
 * Wrapped functions may call each other: an inner call on a key that is held
 * already goes straight in, and the lock is given back by whoever leaves last.
 */
export const locked =
  <A extends unknown[]>({ redis, key, ttlMs = 20_000 }: Options<A>) =>
  <R>(fn: (signal: AbortSignal, ...args: A) => Promise<R>) =>
  async (...args: A): Promise<R> => {
    const name = `locked:${key(...args)}`;

    let hold = holds.get(name);
    if (!hold || hold.lost.signal.aborted) {
      hold = await acquire(redis, name, ttlMs);
      holds.set(name, hold);
    }
    hold.depth++;

    try {
      const result = await fn(hold.lost.signal, ...args);
      hold.lost.signal.throwIfAborted();
      return result;
    } finally {
      if (--hold.depth === 0) {
        if (holds.get(name) === hold) holds.delete(name);
        hold.stop();
        await redis.eval(RELEASE, { keys: [name], arguments: [hold.token] }).catch(() => 0);
      }
    }
  };
