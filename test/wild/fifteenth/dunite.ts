import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

// Each holder gets a number that it hands on to the storage, which refuses writes with a lower one than it has seen.
//
// KEYS: the lock, the counter. ARGV: ttl.
const ENTER = `
if redis.call('exists', KEYS[1]) == 1 then
  return 0
end
local fence = redis.call('incr', KEYS[2])
redis.call('set', KEYS[1], string.format('%d', fence), 'PX', ARGV[1])
redis.call('pexpire', KEYS[2], ARGV[1])
return fence`;

const LEAVE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const STAY = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
for i = 1, 2 do
  if redis.call('pttl', KEYS[i]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[i], ARGV[2])
  end
end
return 1`;

const TIMEOUT_MS = 1_500;

export interface Fenced {
  readonly fence: number;
  readonly isHeld: boolean;
  extend(ttlMs: number): Promise<boolean>;
  release(): Promise<boolean>;
}

class FencedLocks {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  async acquire(resource: string, ttlMs: number): Promise<Fenced | null> {
    const keys: [string, string] = [`{${resource}}:lock`, `{${resource}}:fence`];
    for (let attempt = 0; attempt < 30; attempt += 1) {
      const end = this.#end(ttlMs);
      const fence = await this.#call(ENTER, keys, ttlMs);
      if (fence > 0) {
        const lock = this.#lock(keys, fence, end);
        if (lock.isHeld) return lock;
        await lock.release();
      }
      await new Promise((resolve) => setTimeout(resolve, 80 + 80 * Math.random()));
    }
    return null;
  }

  #lock(keys: [string, string], fence: number, end: number): Fenced {
    let until = end;
    const call = (script: string, ...args: number[]) => this.#call(script, keys, fence, ...args);
    const endOf = (ttlMs: number) => this.#end(ttlMs);
    return {
      fence,
      get isHeld() {
        return Date.now() < until;
      },
      async extend(ttlMs) {
        if (!this.isHeld) return false;
        const next = endOf(ttlMs);
        const reply = await call(STAY, ttlMs);
        if (reply < 0) return false;
        if (reply === 0 || !this.isHeld) {
          await this.release();
          return false;
        }
        until = Math.max(until, next);
        return this.isHeld;
      },
      async release() {
        until = 0;
        return (await call(LEAVE)) === 1;
      },
    };
  }

  #end(ttlMs: number): number {
    return Date.now() + ttlMs - Math.ceil(ttlMs * 0.01) - 2;
  }

  /** What the script returns, or -1 if that is not known. */
  #call(script: string, keys: [string, string], ...args: number[]): Promise<number> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, TIMEOUT_MS, -1);
      this.#redis
        .eval(script, 2, ...keys, ...args)
        .then(Number)
        .catch(() => -1)
        .then((reply) => {
          clearTimeout(timer);
          resolve(reply);
        });
    });
  }
}

export const make: MakeLock = ({ nodes: [redis] }) => new FencedLocks(redis);
