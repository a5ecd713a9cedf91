import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const FREE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`;
const MORE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1`;

const REPLY_MS = 1_000;

function orTimeout<T>(promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('Redis timed out')), REPLY_MS);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

const later = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

class Guard {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #id: string;
  validUntil: number;

  constructor(redis: Redis, key: string, id: string, validUntil: number) {
    this.#redis = redis;
    this.#key = key;
    this.#id = id;
    this.validUntil = validUntil;
  }

  static end(from: number, ttlMs: number): number {
    return from + ttlMs - Math.ceil(ttlMs / 100) - 2;
  }

  async extend(ttlMs: number): Promise<boolean> {
    const from = Date.now();
    if (from >= this.validUntil) return false;
    try {
      const extended = (await orTimeout(this.#redis.eval(MORE, 1, this.#key, this.#id, ttlMs))) === 1;
      if (!extended || Date.now() >= this.validUntil) {
        await this.release();
        return false;
      }
      this.validUntil = Math.max(this.validUntil, Guard.end(from, ttlMs));
      return true;
    } catch {
      return false;
    }
  }

  async release(): Promise<void> {
    this.validUntil = 0;
    await orTimeout(this.#redis.eval(FREE, 1, this.#key, this.#id)).catch(() => 0);
  }
}

/** Creates the key and gives it its TTL in one transaction, so that there is never a key without one. */
async function create(redis: Redis, key: string, id: string, ttlMs: number): Promise<boolean> {
  const replies = await orTimeout(redis.multi().set(key, id, 'NX').pexpire(key, ttlMs).exec());
  if (replies === null) return false;
  for (const [error] of replies) if (error !== null) throw error;
  return replies[0]?.[1] === 'OK';
}

export const make: MakeLock = ({ nodes }) => {
  const redis = nodes[0];
  return {
    async acquire(resource: string, ttlMs: number): Promise<Guard | undefined> {
      const key = `guard:${resource}`;
      const stop = Date.now() + 4 * ttlMs;
      while (Date.now() < stop) {
        const id = randomUUID();
        const guard = new Guard(redis, key, id, Guard.end(Date.now(), ttlMs));
        try {
          const created = await create(redis, key, id, ttlMs);
          if (created && Date.now() < guard.validUntil) return guard;
          if (created) await guard.release();
        } catch {
          await guard.release();
        }
        await later(100 + Math.random() * 100);
      }
      return undefined;
    },
  };
};
