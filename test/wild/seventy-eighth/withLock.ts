/**
 * withLock - run something under a Redis lease.
 *
 * Started as a gist, now copied into three of our services. Needs ioredis and
 * Node 18+.
 *
 *   await withLock(redis, `feed:${id}`, async (signal) => {
 *     const res = await fetch(url, { signal });
 *     await importFeed(res.body, { signal });
 *   });
 *
 * The lease is renewed as long as `fn` runs. If it can no longer be renewed the
 * signal is aborted a little before the key runs out, and `fn` has to stop.
 * As with every lease a frozen process notices late, so rows that must never be
 * written twice still want a version column.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export class LockBusyError extends Error {
  name = 'LockBusyError';
}

export class LockLostError extends Error {
  name = 'LockLostError';
}

export interface WithLockOptions {
  /** lease in ms */
  ttl?: number;
  /** how long to wait for somebody else, in ms */
  wait?: number;
  retryDelay?: number;
  onError?: (err: unknown) => void;
}

// A client may resend a command after a reconnect, so finding our own token counts as success.
const ACQUIRE = `
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

export async function withLock<T>(
  redis: Redis,
  name: string,
  fn: (signal: AbortSignal) => Promise<T>,
  opts: WithLockOptions = {},
): Promise<T> {
  const { ttl = 15_000, wait = 10_000, retryDelay = 150, onError = () => {} } = opts;
  const key = `lock:${name}`;
  const token = randomUUID();
  const margin = ttl * 0.1;

  const release = () => redis.eval(RELEASE, 1, key, token).catch(onError);

  let goodUntil = 0;
  const giveUpAt = performance.now() + wait;
  for (;;) {
    const sentAt = performance.now();
    let got: unknown;
    try {
      got = await redis.eval(ACQUIRE, 1, key, token, ttl);
    } catch (err) {
      await release(); // it may have gone through all the same
      throw err;
    }
    if (got === 1) {
      goodUntil = sentAt + ttl - margin;
      if (performance.now() < goodUntil) break;
      await release(); // the answer took so long that there is nothing left of the lease
    }
    if (performance.now() >= giveUpAt) throw new LockBusyError(`${name} is locked`);
    await sleep(retryDelay + Math.random() * retryDelay);
  }

  const work = new AbortController();
  const stop = new AbortController();
  const lost = () => work.abort(new LockLostError(`lost the lock on ${name}`));

  let alarm = setTimeout(lost, goodUntil - performance.now());

  const keepAlive = async () => {
    while (!stop.signal.aborted && !work.signal.aborted) {
      try {
        await sleep(ttl / 3, undefined, { signal: stop.signal });
      } catch {
        return;
      }
      if (work.signal.aborted) return;
      const sentAt = performance.now();
      try {
        const ok = await redis.eval(EXTEND, 1, key, token, ttl);
        if (stop.signal.aborted || work.signal.aborted) return;
        if (ok !== 1) return lost();
        clearTimeout(alarm);
        alarm = setTimeout(lost, Math.max(0, sentAt + ttl - margin - performance.now()));
      } catch (err) {
        onError(err); // try again next round, the alarm keeps ticking meanwhile
      }
    }
  };
  void keepAlive();

  try {
    const result = await fn(work.signal);
    work.signal.throwIfAborted();
    return result;
  } finally {
    stop.abort();
    clearTimeout(alarm);
    await release();
  }
}
