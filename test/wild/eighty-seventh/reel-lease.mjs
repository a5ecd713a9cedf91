/**
 * @module reel-lease
 *
 * Leases on archive reels: one Redis node, one key per reel, renewed while the callback runs.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

const ACQUIRE = `
local current = redis.call('get', KEYS[1])
if current and current ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const EXTEND = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])`;

const RELEASE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])`;

export class LeaseBusyError extends Error { name = 'LeaseBusyError'; }
export class LeaseLostError extends Error { name = 'LeaseLostError'; }

/** The part of a ttl that we count on, leaving room for timer granularity. */
const usable = (ttlMs) => ttlMs - Math.ceil(ttlMs * 0.02) - 5;

/** Settles like `promise`, or rejects after `ms`. */
function within(promise, ms) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no reply within ${ms} ms`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function release(redis, key, token, ms) {
  await within(redis.eval(RELEASE, 1, key, token), ms).catch(() => {});
}

/** @returns {Promise<number>} the instant (performance.now) until which the lease is ours */
async function acquire(redis, key, token, ttlMs, waitMs) {
  const giveUpAt = performance.now() + waitMs;
  for (;;) {
    const sentAt = performance.now();
    let taken;
    try {
      taken = await within(redis.eval(ACQUIRE, 1, key, token, ttlMs), ttlMs / 3);
    } catch (err) {
      await release(redis, key, token, ttlMs / 3);
      throw err;
    }
    const until = sentAt + usable(ttlMs);
    if (taken === 1 && performance.now() < until) return until;
    if (performance.now() >= giveUpAt) throw new LeaseBusyError(`${key} is taken`);
    await delay(100 + Math.random() * 150);
  }
}

/**
 * Runs `fn` while holding the lease on `name`.
 *
 * `fn` gets a `signal`, which aborts when the lease can no longer be counted
 * on, and `remainingMs()`, to be consulted ahead of any step that can not be
 * undone. The promise rejects with LeaseLostError if the lease ran out first.
 *
 * @template T
 * @param {import('ioredis').Redis} redis
 * @param {string} name
 * @param {{ ttlMs?: number, waitMs?: number }} options
 * @param {(lease: { signal: AbortSignal, remainingMs: () => number }) => Promise<T>} fn
 * @returns {Promise<T>}
 */
export async function withLease(redis, name, { ttlMs = 15_000, waitMs = 0 }, fn) {
  if (!Number.isInteger(ttlMs) || ttlMs < 300) throw new RangeError('ttlMs must be an integer >= 300');
  const key = `lease:reel:${name}`;
  const token = randomUUID();
  const lost = new AbortController();
  const done = new AbortController();
  let deadline = await acquire(redis, key, token, ttlMs, waitMs);
  let watchdog;

  const lose = () => lost.abort(new LeaseLostError(`${key} was lost`));
  const arm = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(lose, Math.max(0, deadline - performance.now()));
  };
  const remainingMs = () => (lost.signal.aborted ? 0 : Math.max(0, deadline - performance.now()));

  const renewLoop = async () => {
    for (;;) {
      await delay(ttlMs / 3, undefined, { signal: done.signal }).catch(() => {});
      if (done.signal.aborted || lost.signal.aborted) return;
      const sentAt = performance.now();
      try {
        const kept = await within(redis.eval(EXTEND, 1, key, token, ttlMs), ttlMs / 3);
        if (kept !== 1) return lose();
        deadline = sentAt + usable(ttlMs);
        arm();
      } catch {
        // No answer, no new deadline; the watchdog keeps the old one.
      }
    }
  };

  arm();
  const renewing = renewLoop();
  try {
    const result = await fn({ signal: lost.signal, remainingMs });
    if (remainingMs() === 0) throw new LeaseLostError(`${key} was lost`);
    return result;
  } finally {
    done.abort();
    await renewing;
    clearTimeout(watchdog);
    await release(redis, key, token, ttlMs / 3);
  }
}
