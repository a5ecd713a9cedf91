import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

/**
 * SET NX that tells the loser how long the winner may still keep the key:
 *   -1  we own it now
 *   >=0 remaining milliseconds of the current owner
 */
const TRY = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return -1 end
return math.max(0, redis.call('PTTL', KEYS[1]))`;

const FREE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class LockWaitTimeout extends Error {}

export interface LockedOptions {
  ttlMs: number;
  waitMs: number;
}

/** Last argument of every wrapped function. */
export interface LockContext {
  signal: AbortSignal;
  /** true while a write that takes up to `ms` is still covered by the lock */
  covers(ms: number): boolean;
}

/**
 * const sync = lockedBy(redis)('crm-sync')(async (ctx, accountId: string) => { ... })
 *
 * Every invocation of the wrapped function is its own lock owner, two parallel
 * calls in one process exclude each other just like two pods do.
 */
export function lockedBy(redis: Client, { ttlMs, waitMs }: LockedOptions = { ttlMs: 20_000, waitMs: 10_000 }) {
  const margin = Math.ceil(ttlMs / 100) + 2; // clock drift

  const free = (key: string, owner: string) =>
    redis.eval(FREE, { keys: [key], arguments: [owner] }).catch(() => 0);

  async function take(key: string, owner: string): Promise<number> {
    const giveUp = performance.now() + waitMs;
    for (;;) {
      const asked = performance.now();
      let left: number;
      try {
        left = Number(await redis.eval(TRY, { keys: [key], arguments: [owner, String(ttlMs)] }));
      } catch (err) {
        await free(key, owner); // maybe only the reply was lost
        throw err;
      }
      const now = performance.now();
      if (left === -1) {
        const until = asked + ttlMs - margin;
        if (now < until) return until;
        await free(key, owner); // the grant took so long that it is worthless
        left = 0;
      }
      if (now >= giveUp) throw new LockWaitTimeout(`${key} still busy after ${waitMs} ms`);
      // never sleep past the owner's expiry, never hammer the server either
      const nap = Math.min(Math.max(left, 20), 250, giveUp - now) * (0.5 + Math.random() / 2);
      await delay(Math.max(5, nap));
    }
  }

  return function locked(name: string) {
    return function wrap<A extends unknown[], R>(fn: (ctx: LockContext, ...args: A) => Promise<R>) {
      return async (...args: A): Promise<R> => {
        const key = `locked:${name}`;
        const owner = randomUUID();
        const until = await take(key, owner);
        const abort = new AbortController();
        const timer = setTimeout(
          () => abort.abort(new Error(`${key} is not ours any more`)),
          Math.max(0, until - performance.now()),
        );
        const ctx: LockContext = {
          signal: abort.signal,
          covers: (ms) => !abort.signal.aborted && performance.now() + ms < until,
        };
        try {
          // awaited here, so that the key stays until the work is over
          const result = await fn(ctx, ...args);
          abort.signal.throwIfAborted();
          return result;
        } finally {
          clearTimeout(timer);
          await free(key, owner);
        }
      };
    };
  };
}
