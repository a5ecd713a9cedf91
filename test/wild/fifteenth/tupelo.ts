import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

const EXTEND = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1`;

const ANSWER_MS = 1_000;
const ATTEMPTS = 40;

function within<T>(ms: number, request: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
  });
  return Promise.race([request, late]).finally(() => clearTimeout(timer));
}

/** The end of a TTL that was requested at `sentAt`, less what clocks may differ. */
const validUntil = (sentAt: number, ttlMs: number): number => sentAt + ttlMs - Math.ceil(ttlMs * 0.01) - 2;

class Lease {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #token: string;
  #until: number;

  constructor(redis: Redis, key: string, token: string, until: number) {
    this.#redis = redis;
    this.#key = key;
    this.#token = token;
    this.#until = until;
  }

  remaining(): number {
    return Math.max(0, this.#until - Date.now());
  }

  async extend(ttlMs: number): Promise<boolean> {
    if (this.remaining() === 0) return false;
    const until = validUntil(Date.now(), ttlMs);
    let reply: unknown;
    try {
      reply = await within(ANSWER_MS, this.#redis.eval(EXTEND, 1, this.#key, this.#token, ttlMs));
    } catch {
      return false;
    }
    if (reply !== 1 || this.remaining() === 0) {
      await this.release();
      return false;
    }
    this.#until = Math.max(this.#until, until);
    return this.remaining() > 0;
  }

  async release(): Promise<boolean> {
    this.#until = 0;
    try {
      return (await within(ANSWER_MS, this.#redis.eval(RELEASE, 1, this.#key, this.#token))) === 1;
    } catch {
      return false;
    }
  }
}

export const make: MakeLock = ({ nodes }) => {
  const [redis] = nodes;

  return {
    async acquire(resource: string, ttlMs: number): Promise<Lease | null> {
      const key = `lease:${resource}`;
      for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
        if (attempt > 0) await sleep(60 + Math.random() * 90);
        const token = randomUUID();
        const lease = new Lease(redis, key, token, validUntil(Date.now(), ttlMs));
        try {
          const reply = await within(ANSWER_MS, redis.set(key, token, 'PX', ttlMs, 'NX'));
          if (reply !== 'OK') continue;
          if (lease.remaining() > 0) return lease;
        } catch {
          // Whether the key was set is unknown.
        }
        await lease.release();
      }
      return null;
    },
  };
};
