import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Runs a piece of work under a Redis lock.
 *
 * - every call has its own random token
 * - the lock always has a TTL, and is extended while the work is running
 * - extend and release only ever touch a lock that still carries our token
 * - if the lock is lost, `lease.signal` is aborted and `lease.assertHeld()` throws
 */

const EXTEND_SCRIPT = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0
`;

const RELEASE_SCRIPT = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

export class LockBusyError extends Error {}
export class LockLostError extends Error {}

export interface Lease {
  signal: AbortSignal;
  /** Call this directly before every side effect. */
  assertHeld(): void;
}

export async function withLock<T>(
  redis: Redis,
  resource: string,
  work: (lease: Lease) => Promise<T>,
  options: { ttlMs?: number } = {},
): Promise<T> {
  const ttlMs = options.ttlMs ?? 30_000;
  const marginMs = Math.ceil(ttlMs * 0.1);
  const key = `lock:${resource}`;
  const token = randomUUID();

  // Measured before the command leaves: the TTL on the server can only start later.
  let deadline = performance.now() + ttlMs - marginMs;
  const reply = await redis.set(key, token, 'PX', ttlMs, 'NX');
  if (reply !== 'OK') {
    throw new LockBusyError(`${resource} is locked by someone else`);
  }

  const controller = new AbortController();
  const { signal } = controller;
  const lose = () => controller.abort(new LockLostError(`Lost the lock on ${resource}`));
  let expiryTimer = setTimeout(lose, Math.max(0, deadline - performance.now()));
  let extending = false;
  let finished = false;

  const assertHeld = () => {
    // The clock is checked too, because a blocked event loop delays timers.
    if (performance.now() >= deadline) lose();
    signal.throwIfAborted();
  };

  const extend = async () => {
    if (extending || finished || signal.aborted) return;
    extending = true;
    const sentAt = performance.now();
    try {
      const extended = await redis.eval(EXTEND_SCRIPT, 1, key, token, ttlMs);
      if (extended !== 1) {
        lose();
      } else if (!finished && !signal.aborted) {
        deadline = sentAt + ttlMs - marginMs;
        clearTimeout(expiryTimer);
        expiryTimer = setTimeout(lose, Math.max(0, deadline - performance.now()));
      }
    } catch {
      // Probably a network problem. We try again, and the deadline stands until then.
    } finally {
      extending = false;
    }
  };
  const heartbeat = setInterval(() => void extend(), Math.floor(ttlMs / 3));

  try {
    assertHeld();
    const result = await work({ signal, assertHeld });
    assertHeld();
    return result;
  } finally {
    finished = true;
    clearInterval(heartbeat);
    clearTimeout(expiryTimer);
    await redis.eval(RELEASE_SCRIPT, 1, key, token).catch((err: unknown) => {
      console.warn(`[lock] could not release ${key}, it will expire by itself`, err);
    });
  }
}
