import type { Redis } from 'ioredis';
import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

export interface ReentrantLockOptions {
  leaseMs: number;
  waitMs: number;
  prefix: string;
}

export interface Hold {
  readonly name: string;
  readonly depth: number;
  readonly signal: AbortSignal;
  release(): Promise<void>;
}

export class LockNotAvailableError extends Error {
  constructor(name: string) {
    super(`lock "${name}" is not available`);
  }
}

const ENTER = `
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  local depth = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return depth
end
return 0`;

const LEAVE = `
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return -1 end
local depth = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if depth <= 0 then redis.call('DEL', KEYS[1]) end
return depth`;

/**
 * A lock that its holder may enter again, so that services which lock the same
 * rehearsal can call each other. Each entry needs its own release.
 */
export class ReentrantLockFactory {
  private readonly ownerId = `${hostname()}:${process.pid}:${randomUUID()}`;
  private readonly options: ReentrantLockOptions;

  constructor(private readonly redis: Redis, options: Partial<ReentrantLockOptions> = {}) {
    this.options = { leaseMs: 30_000, waitMs: 10_000, prefix: 'rehearsal-lock', ...options };
  }

  async acquire(name: string): Promise<Hold> {
    const { leaseMs, waitMs } = this.options;
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const askedAt = performance.now();
      const depth = Number(await this.redis.eval(ENTER, 1, this.key(name), this.ownerId, leaseMs));
      if (depth > 0) return this.hold(name, depth, askedAt + leaseMs - 1_000);
      if (performance.now() >= giveUpAt) throw new LockNotAvailableError(name);
      await sleep(50 + Math.random() * 150);
    }
  }

  /** `work` receives a signal that fires before the lease ends. */
  async run<T>(name: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const hold = await this.acquire(name);
    try {
      hold.signal.throwIfAborted();
      return await work(hold.signal);
    } finally {
      await hold.release().catch(() => undefined);
    }
  }

  private hold(name: string, depth: number, endsAt: number): Hold {
    const signal = AbortSignal.timeout(Math.max(0, Math.floor(endsAt - performance.now())));
    let released = false;
    return {
      name,
      depth,
      signal,
      release: async () => {
        if (released) return;
        released = true;
        await this.redis.eval(LEAVE, 1, this.key(name), this.ownerId);
      },
    };
  }

  private key(name: string): string {
    return `${this.options.prefix}:${name}`;
  }
}

let shared: ReentrantLockFactory | undefined;

export function rehearsalLocks(redis: Redis): ReentrantLockFactory {
  shared ??= new ReentrantLockFactory(redis);
  return shared;
}
