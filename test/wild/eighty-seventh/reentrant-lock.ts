/**
 * @packageDocumentation
 *
 * A reentrant lock for the theatre planning services: a method that holds the
 * lock on an operating theatre may call another one that takes it as well.
 *
 * The lock is a hash with one field, the owner, whose value is the depth.
 */
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type Redis from 'ioredis';

const ENTER = `
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const LEAVE = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end
local depth = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if depth <= 0 then redis.call('del', KEYS[1]) end
return depth`;

export interface ReentrantLockOptions {
  /** Life of the lock after the latest entry, in ms. */
  ttlMs?: number;
  /** How long to wait for another owner, in ms. */
  waitMs?: number;
  prefix?: string;
}

export class LockUnavailableError extends Error {
  override name = 'LockUnavailableError';
  constructor(readonly resource: string) {
    super(`${resource} is locked by another owner`);
  }
}

/** A name that is unique among all running instances of the service. */
export function instanceName(): string {
  return `${hostname()}:${process.pid}`;
}

/** Time between two attempts, with some jitter. */
const pause = (): number => 40 + Math.floor(Math.random() * 60);

export class ReentrantLock {
  private readonly owner = instanceName();
  private readonly ttlMs: number;
  private readonly waitMs: number;
  private readonly prefix: string;

  constructor(private readonly redis: Redis, options: ReentrantLockOptions = {}) {
    this.ttlMs = options.ttlMs ?? 12_000;
    this.waitMs = options.waitMs ?? 5_000;
    this.prefix = options.prefix ?? 'theatre:lock:';
  }

  /**
   * Runs `work` with exclusive access to `resource`.
   *
   * The signal aborts shortly before the lock would expire; `work` should hand
   * it on to whatever it calls.
   */
  async withLock<T>(resource: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const sentAt = await this.enter(resource);
    try {
      const left = sentAt + this.ttlMs * 0.9 - performance.now();
      if (left <= 0) throw new LockUnavailableError(resource);
      const signal = AbortSignal.timeout(Math.floor(left));
      const result = await work(signal);
      signal.throwIfAborted();
      return result;
    } finally {
      await this.leave(resource);
    }
  }

  private async enter(resource: string): Promise<number> {
    const giveUpAt = performance.now() + this.waitMs;
    for (;;) {
      const sentAt = performance.now();
      const entered = await this.redis.eval(ENTER, 1, this.prefix + resource, this.owner, this.ttlMs);
      if (entered === 1) return sentAt;
      if (performance.now() >= giveUpAt) throw new LockUnavailableError(resource);
      await sleep(pause());
    }
  }

  private async leave(resource: string): Promise<void> {
    try {
      await this.redis.eval(LEAVE, 1, this.prefix + resource, this.owner);
    } catch {
      // the ttl ends it
    }
  }
}
