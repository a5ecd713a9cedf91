import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/**
 * Reentrant lock, modelled on Redisson's RLock. The lock is a hash with the owner as its
 * field and the hold count as the value.
 */
const LOCK = `
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0
`;

const UNLOCK = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return -1
end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
redis.call('DEL', KEYS[1])
return 0
`;

const KEEP = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
`;

export class LockWaitTimeout extends Error {
  constructor(name: string, waitedMs: number) {
    super(`lock ${name} not free after ${waitedMs} ms`);
    this.name = 'LockWaitTimeout';
  }
}

export class LockLost extends Error {
  constructor(name: string) {
    super(`lock ${name} lost`);
    this.name = 'LockLost';
  }
}

export interface ReentrantLocksOptions {
  leaseMs?: number;
  waitMs?: number;
}

export class ReentrantLocks {
  /** How Redis knows this client, unique over hosts and restarts. */
  private readonly owner = `${hostname()}:${process.pid}:${randomUUID()}`;
  private readonly leaseMs: number;
  private readonly waitMs: number;

  constructor(private readonly redis: Redis, options: ReentrantLocksOptions = {}) {
    this.leaseMs = options.leaseMs ?? 20_000;
    this.waitMs = options.waitMs ?? 10_000;
  }

  /**
   * Runs `fn` under the lock. May be nested: code that already holds the lock, for example
   * `cancelBooking` called from within `rebook`, passes straight through.
   */
  async withLock<T>(name: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `rlock:${name}`;
    let confirmedAt = await this.lock(key);
    const lost = new AbortController();

    const keeper = setInterval(async () => {
      const sentAt = performance.now();
      if (sentAt - confirmedAt > this.leaseMs * 0.9) lost.abort(new LockLost(name));
      const kept = await this.redis.eval(KEEP, 1, key, this.owner, this.leaseMs).catch(() => undefined);
      if (kept === 1) confirmedAt = Math.max(confirmedAt, sentAt);
      if (kept === 0) lost.abort(new LockLost(name));
    }, this.leaseMs / 8);

    try {
      const result = await fn(lost.signal);
      lost.signal.throwIfAborted();
      return result;
    } finally {
      clearInterval(keeper);
      await this.redis.eval(UNLOCK, 1, key, this.owner, this.leaseMs).catch(() => undefined);
    }
  }

  private async lock(key: string): Promise<number> {
    const startedAt = performance.now();
    for (;;) {
      const sentAt = performance.now();
      if ((await this.redis.eval(LOCK, 1, key, this.owner, this.leaseMs)) === 1) return sentAt;
      if (performance.now() - startedAt > this.waitMs) throw new LockWaitTimeout(key, this.waitMs);
      await sleep(60 + Math.random() * 80);
    }
  }
}
