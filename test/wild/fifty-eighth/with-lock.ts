// lib/with-lock.ts
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const EXTEND = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pexpire", KEYS[1], ARGV[2])
end
return 0`;

export class LockBusyError extends Error {}
export class LockLostError extends Error {}

export interface WithLockOptions {
  ttlMs?: number;
  /** how long to wait for somebody else to finish */
  waitMs?: number;
}

/**
 * Runs `fn` under `lock:<name>` and keeps extending the lease while it runs.
 *
 * `signal` fires before the lease can end without having been extended. `fn` has to hand it to whatever it
 * awaits and stop. A process that freezes cannot see the signal in time, so this is mutual exclusion "as good as
 * the clock": callers use it to avoid duplicate work, and the writes inside are upserts.
 */
export async function withLock<T>(
  redis: Redis,
  name: string,
  fn: (signal: AbortSignal) => Promise<T>,
  { ttlMs = 15_000, waitMs = 5_000 }: WithLockOptions = {},
): Promise<T> {
  const key = `lock:${name}`;
  const token = randomUUID();
  const margin = Math.ceil(ttlMs * 0.2);
  const giveUpAt = performance.now() + waitMs;
  const release = () => redis.eval(RELEASE, 1, key, token).catch(() => 0); // the ttl frees it otherwise

  // measured from before the command left, so it never lies behind the expiry Redis has
  let safeUntil = 0;
  for (;;) {
    const sentAt = performance.now();
    if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK') {
      safeUntil = sentAt + ttlMs - margin;
      if (performance.now() < safeUntil) break;
      await release(); // the reply took longer than the lease is worth
    }
    if (performance.now() >= giveUpAt) throw new LockBusyError(`${name} is locked`);
    await sleep(100 + Math.random() * 150);
  }

  const lost = new AbortController();
  const finished = new AbortController();
  const lose = () => {
    if (!finished.signal.aborted) lost.abort(new LockLostError(`lost ${name}`));
  };
  let watchdog = setTimeout(lose, safeUntil - performance.now());

  const keepAlive = async () => {
    const stop = AbortSignal.any([finished.signal, lost.signal]);
    while (!stop.aborted) {
      await sleep(ttlMs / 4, undefined, { signal: stop }).catch(() => undefined);
      if (stop.aborted) return;
      const sentAt = performance.now();
      try {
        if ((await redis.eval(EXTEND, 1, key, token, ttlMs)) !== 1) return lose();
        if (stop.aborted) return;
        clearTimeout(watchdog);
        watchdog = setTimeout(lose, Math.max(0, sentAt + ttlMs - margin - performance.now()));
      } catch {
        // unreachable: next round tries again, the watchdog fires if that does not help
      }
    }
  };
  void keepAlive();

  try {
    const result = await fn(lost.signal);
    lost.signal.throwIfAborted();
    return result;
  } finally {
    finished.abort();
    clearTimeout(watchdog);
    await release();
  }
}
