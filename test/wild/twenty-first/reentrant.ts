import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

export class LockTimeoutError extends Error {
  readonly lockName: string;
  constructor(lockName: string) {
    super(`could not get lock "${lockName}" in time`);
    this.name = 'LockTimeoutError';
    this.lockName = lockName;
  }
}

export class LockExpiredError extends Error {
  constructor(lockName: string) {
    super(`work under lock "${lockName}" took longer than the lock lasted`);
    this.name = 'LockExpiredError';
  }
}

export interface ReentrantLockOptions {
  prefix?: string;
  ttlMs?: number;
  waitMs?: number;
}

// Hash of owner -> hold count, the layout Redisson uses.
const ENTER = `
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
return 0
`;

const LEAVE = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) <= 0 then
  redis.call('del', KEYS[1])
end
return 1
`;

/**
 * Mutual exclusion per name, which may be entered again by its owner. Needed
 * because AccountService.close() calls AccountService.withdraw() and both of
 * them lock the account.
 *
 * One instance of this class is shared by all services of the app.
 */
export class ReentrantLock {
  readonly #redis: RedisClientType;
  readonly #owner = `${hostname()}:${process.pid}:${randomUUID()}`;
  readonly #prefix: string;
  readonly #ttlMs: number;
  readonly #waitMs: number;

  constructor(redis: RedisClientType, options: ReentrantLockOptions = {}) {
    this.#redis = redis;
    this.#prefix = options.prefix ?? 'rlock:';
    this.#ttlMs = options.ttlMs ?? 20_000;
    this.#waitMs = options.waitMs ?? 5_000;
  }

  /**
   * Runs `work` while holding the lock. `signal` fires well before the lock runs
   * out; work is expected to stop on it.
   */
  async run<T>(name: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = this.#prefix + name;
    const until = await this.#enter(key, name);
    try {
      const left = Math.max(0, Math.floor(until - performance.now()));
      const result = await work(AbortSignal.timeout(left));
      if (performance.now() > until) throw new LockExpiredError(name);
      return result;
    } finally {
      await this.#leave(key);
    }
  }

  async #enter(key: string, name: string): Promise<number> {
    const giveUpAt = performance.now() + this.#waitMs;
    for (;;) {
      const askedAt = performance.now();
      const entered = await this.#redis.eval(ENTER, {
        keys: [key],
        arguments: [this.#owner, String(this.#ttlMs)],
      });
      if (entered === 1) return askedAt + this.#ttlMs * 0.75;
      if (performance.now() > giveUpAt) throw new LockTimeoutError(name);
      await delay(50 + Math.random() * 50);
    }
  }

  async #leave(key: string): Promise<void> {
    try {
      await this.#redis.eval(LEAVE, { keys: [key], arguments: [this.#owner] });
    } catch {
      // the ttl takes care of it
    }
  }
}
