import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class LockTimeoutError extends Error {}
export class LockLostError extends Error {}

export interface WithLockOptions {
  ttlMs?: number;
  waitMs?: number;
}

/**
 * Runs `fn` while holding `key`. The lease is renewed in the background; `signal` fires
 * ahead of the moment the lease could run out, and `fn` is expected to stop on it.
 */
export async function withLock<T>(
  redis: Redis,
  key: string,
  fn: (signal: AbortSignal) => Promise<T>,
  { ttlMs = 15_000, waitMs = 5_000 }: WithLockOptions = {},
): Promise<T> {
  const token = randomUUID();
  const margin = Math.ceil(ttlMs * 0.1);
  const giveUpAt = performance.now() + waitMs;
  const release = () =>
    redis.eval(RELEASE, 1, key, token).catch((err: unknown) => {
      console.warn(`could not release ${key}, it will expire`, err);
    });

  let validUntil = 0;
  try {
    for (;;) {
      const sentAt = performance.now();
      const got = await redis.eval(ACQUIRE, 1, key, token, ttlMs);
      validUntil = sentAt + ttlMs - margin;
      if (got === 1 && performance.now() < validUntil) break;
      if (performance.now() >= giveUpAt) throw new LockTimeoutError(`timed out waiting for ${key}`);
      await sleep(50 + Math.random() * 100);
    }
  } catch (err) {
    await release();
    throw err;
  }

  const controller = new AbortController();
  const lose = () => controller.abort(new LockLostError(`lost ${key}`));
  let deadline = setTimeout(lose, validUntil - performance.now());
  let busy = false;
  let finished = false;

  const beat = setInterval(async () => {
    if (busy || controller.signal.aborted) return;
    busy = true;
    const sentAt = performance.now();
    try {
      const ok = await redis.eval(EXTEND, 1, key, token, ttlMs);
      if (finished || controller.signal.aborted) return;
      if (ok !== 1) return lose();
      validUntil = sentAt + ttlMs - margin;
      clearTimeout(deadline);
      deadline = setTimeout(lose, Math.max(0, validUntil - performance.now()));
    } catch {
      // next beat tries again, the deadline timer has the last word
    } finally {
      busy = false;
    }
  }, Math.floor(ttlMs / 3));

  try {
    const result = await fn(controller.signal);
    if (performance.now() >= validUntil) lose();
    controller.signal.throwIfAborted();
    return result;
  } finally {
    finished = true;
    clearInterval(beat);
    clearTimeout(deadline);
    await release();
  }
}
