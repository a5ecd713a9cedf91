import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const LIMIT_MS = 1_000;
const COMPARE_DELETE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
  return 0`;
const COMPARE_EXTEND = `
  if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
  if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
  return 1`;

function limited<T>(work: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('timed out')), LIMIT_MS);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Optimistic locking: the transaction is discarded if anybody touched the key after it was seen to be free. */
async function setIfFree(redis: Redis, key: string, token: string, ttlMs: number): Promise<boolean> {
  await limited(redis.watch(key));
  const owner = await limited(redis.get(key));
  if (owner !== null) {
    await limited(redis.unwatch());
    return false;
  }
  const replies = await limited(redis.multi().set(key, token, 'PX', ttlMs).exec());
  return replies !== null && replies[0]?.[0] === null;
}

export const make: MakeLock = ({ nodes }) => {
  const redis = nodes[0];
  const prefix = 'app:lock:';

  const horizon = (from: number, ttlMs: number) => from + ttlMs - (ttlMs * 0.01 + 2);

  const remove = (key: string, token: string) =>
    limited(redis.eval(COMPARE_DELETE, 1, key, token)).then(
      (count) => count === 1,
      () => false,
    );

  const handle = (key: string, token: string, end: number) => {
    let until = end;
    const remaining = () => Math.max(0, until - Date.now());
    const release = () => {
      until = 0;
      return remove(key, token);
    };
    const extend = async (ttlMs: number) => {
      if (remaining() <= 0) return false;
      const next = horizon(Date.now(), ttlMs);
      const reply = await limited(redis.eval(COMPARE_EXTEND, 1, key, token, ttlMs)).catch(() => null);
      if (reply === null) return false;
      if (reply !== 1 || remaining() <= 0) {
        await release();
        return false;
      }
      until = Math.max(until, next);
      return true;
    };
    return { remaining, release, extend };
  };

  return {
    async acquire(resource, ttlMs) {
      const key = prefix + resource;
      for (let attempt = 0; attempt < 50; attempt += 1) {
        const token = randomUUID();
        const end = horizon(Date.now(), ttlMs);
        try {
          const set = await setIfFree(redis, key, token, ttlMs);
          if (set && Date.now() < end) return handle(key, token, end);
          if (set) await remove(key, token);
        } catch {
          await remove(key, token);
        }
        await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 100));
      }
      return null;
    },
  };
};
