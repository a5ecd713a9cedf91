import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');

const TTL_MS = 15_000;
const SAFETY_MS = 3_000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class LockBusyError extends Error {
  constructor(key) {
    super(`"${key}" is locked by somebody else`);
    this.name = 'LockBusyError';
    this.key = key;
  }
}

/**
 * Runs `fn` while holding the lock on `key` and hands its result through.
 *
 * `fn` is given an AbortSignal that fires a few seconds before the lock would
 * expire; pass it on to fetch(), to queries and to child processes.
 *
 * @template T
 * @param {string} key
 * @param {(signal: AbortSignal) => Promise<T>} fn
 * @returns {Promise<T>}
 */
export async function withLock(key, fn) {
  const name = `lock:${key}`;
  const token = randomUUID();

  const askedAt = performance.now();
  const reply = await redis.set(name, token, 'PX', TTL_MS, 'NX');
  if (reply !== 'OK') throw new LockBusyError(key);

  // The clock of the lock has been running since we asked for it.
  const budget = TTL_MS - SAFETY_MS - (performance.now() - askedAt);

  try {
    if (budget <= 0) throw new LockBusyError(key);
    return fn(AbortSignal.timeout(Math.floor(budget)));
  } finally {
    await redis.eval(UNLOCK, 1, name, token).catch((err) => {
      console.warn(`unlock of ${key} failed, it will expire by itself`, err);
    });
  }
}
