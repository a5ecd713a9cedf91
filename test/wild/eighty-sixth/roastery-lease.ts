import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

export interface LeaseOptions { ttlMs: number; waitMs: number; driftMs: number }
export interface LeaseContext {
  readonly fence: number;
  readonly signal: AbortSignal;
  assertHeld(): void;
}
export interface LeaseStore {
  take(resource: string, token: string, ttlMs: number): Promise<number>;
  renew(resource: string, token: string, ttlMs: number): Promise<boolean>;
  free(resource: string, token: string): Promise<void>;
}

export class LeaseBusyError extends Error {}
export class LeaseLostError extends Error {}

const TAKE = `
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] then return tonumber(redis.call('GET', KEYS[2])) end
if owner then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('INCR', KEYS[2])`;
const RENEW = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const FREE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

export class RedisLeaseStore implements LeaseStore {
  constructor(private readonly redis: Redis, private readonly namespace = 'roastery') {}

  async take(resource: string, token: string, ttlMs: number): Promise<number> {
    const base = this.base(resource);
    return Number(await this.redis.eval(TAKE, 2, `${base}:lease`, `${base}:fence`, token, ttlMs));
  }
  async renew(resource: string, token: string, ttlMs: number): Promise<boolean> {
    return (await this.redis.eval(RENEW, 1, `${this.base(resource)}:lease`, token, ttlMs)) === 1;
  }
  async free(resource: string, token: string): Promise<void> {
    await this.redis.eval(FREE, 1, `${this.base(resource)}:lease`, token);
  }
  private base(resource: string): string {
    return `{${this.namespace}:${resource}}`;
  }
}

export class LeaseRunner {
  private readonly options: LeaseOptions;

  constructor(private readonly store: LeaseStore, options: Partial<LeaseOptions> = {}) {
    this.options = { ttlMs: 20_000, waitMs: 10_000, driftMs: 500, ...options };
  }

  /** Runs `work` under the lease. Work hands `signal` to its I/O and `fence` to its writes. */
  async run<T>(resource: string, work: (ctx: LeaseContext) => Promise<T>): Promise<T> {
    const { ttlMs, driftMs } = this.options;
    const token = randomUUID();
    const abort = new AbortController();
    let deadline = 0;
    let expiry: NodeJS.Timeout | undefined;
    let beat: NodeJS.Timeout | undefined;
    let finished = false;

    const lose = (why: string) => {
      if (!finished) abort.abort(new LeaseLostError(`${resource}: ${why}`));
    };
    const grant = (askedAt: number) => {
      if (finished) return;
      deadline = askedAt + ttlMs - driftMs;
      clearTimeout(expiry);
      expiry = setTimeout(() => lose('expired'), Math.max(0, deadline - performance.now()));
    };
    const renewLater = () => {
      beat = setTimeout(async () => {
        const askedAt = performance.now();
        try {
          if (await this.store.renew(resource, token, ttlMs)) grant(askedAt);
          else lose('taken over');
        } catch { /* the expiry timer decides */ }
        if (!finished && !abort.signal.aborted) renewLater();
      }, ttlMs / 3);
    };
    const assertHeld = () => {
      if (performance.now() >= deadline) lose('expired');
      abort.signal.throwIfAborted();
    };

    try {
      const { fence, askedAt } = await this.take(resource, token);
      grant(askedAt);
      renewLater();
      assertHeld();
      return await work({ fence, signal: abort.signal, assertHeld });
    } finally {
      finished = true;
      clearTimeout(expiry);
      clearTimeout(beat);
      await this.store.free(resource, token).catch(() => undefined);
    }
  }

  private async take(resource: string, token: string): Promise<{ fence: number; askedAt: number }> {
    const giveUpAt = performance.now() + this.options.waitMs;
    for (;;) {
      const askedAt = performance.now();
      const fence = await this.store.take(resource, token, this.options.ttlMs);
      if (fence > 0) return { fence, askedAt };
      if (performance.now() >= giveUpAt) throw new LeaseBusyError(resource);
      await sleep(100 + Math.random() * 150);
    }
  }
}
