import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/**
 * Shared / exclusive lock for search indexes: queries hold it shared while a
 * cursor is open, the rebuild holds it exclusively while it swaps the segments.
 */

const ENTER_SHARED = `
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
return 1`;

const LEAVE_EXCLUSIVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export interface Held {
  readonly mode: 'shared' | 'exclusive';
  /** ms left until Redis considers it given up. There is no renewal. */
  remaining(): number;
  release(): Promise<void>;
}

export interface RwLockOptions {
  /** No default: a rebuild and a cursor have nothing in common. */
  ttlMs: number;
  waitMs?: number;
}

export class RwLockTimeout extends Error {
  constructor(name: string, mode: Held['mode']) {
    super(`timed out waiting for ${mode} access to ${name}`);
  }
}

export class RwLock {
  private readonly readersKey: string;
  private readonly writerKey: string;

  constructor(private readonly redis: Redis, private readonly name: string) {
    this.readersKey = `rw:{${name}}:readers`;
    this.writerKey = `rw:{${name}}:writer`;
  }

  shared(options: RwLockOptions): Promise<Held> {
    return this.obtain('shared', options, (id) => this.tryShared(id, options.ttlMs));
  }

  exclusive(options: RwLockOptions): Promise<Held> {
    return this.obtain('exclusive', options, (id) => this.tryExclusive(id, options.ttlMs));
  }

  private async tryShared(id: string, ttlMs: number): Promise<boolean> {
    const entered = await this.redis.eval(ENTER_SHARED, 2, this.readersKey, this.writerKey, id, ttlMs);
    return entered === 1;
  }

  private async tryExclusive(id: string, ttlMs: number): Promise<boolean> {
    const [sec, usec] = (await this.redis.time()).map(Number);
    const now = sec * 1000 + Math.floor(usec / 1000);
    await this.redis.zremrangebyscore(this.readersKey, '-inf', now);
    if ((await this.redis.zcard(this.readersKey)) > 0) return false;
    return (await this.redis.set(this.writerKey, id, 'PX', ttlMs, 'NX')) === 'OK';
  }

  private async obtain(
    mode: Held['mode'],
    { ttlMs, waitMs = 5_000 }: RwLockOptions,
    attempt: (id: string) => Promise<boolean>,
  ): Promise<Held> {
    if (!Number.isInteger(ttlMs) || ttlMs <= 0) throw new RangeError('ttlMs');
    const id = randomUUID();
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const sentAt = performance.now();
      if (await attempt(id)) {
        return {
          mode,
          remaining: () => Math.max(0, sentAt + ttlMs - performance.now()),
          release: () => this.leave(mode, id),
        };
      }
      if (performance.now() >= giveUpAt) throw new RwLockTimeout(this.name, mode);
      await sleep(40 + Math.random() * 80);
    }
  }

  private async leave(mode: Held['mode'], id: string): Promise<void> {
    if (mode === 'shared') await this.redis.zrem(this.readersKey, id);
    else await this.redis.eval(LEAVE_EXCLUSIVE, 1, this.writerKey, id);
  }
}
