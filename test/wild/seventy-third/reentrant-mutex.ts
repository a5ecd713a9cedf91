import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

const ACQUIRE = `
local cur = redis.call('GET', KEYS[1])
if cur and cur ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('INCR', KEYS[2])`;

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class MutexTimeoutError extends Error {}
export class MutexLostError extends Error {}

export interface Lease {
  /** Aborts as soon as the lock can no longer be shown to be ours. Pass it on. */
  signal: AbortSignal;
  /** Grows with every acquisition; hand it to stores that can compare it. */
  fence: number;
}

interface Hold extends Lease {
  key: string;
  token: string;
  users: number;
  abort: AbortController;
  renewTimer?: NodeJS.Timeout;
  lapseTimer?: NodeJS.Timeout;
}

/**
 * Named mutex that may be entered again from inside itself. "Inside" follows
 * the async call chain, and the lock is given back when the last user leaves,
 * also if that is a call nobody awaited.
 */
export class ReentrantMutex {
  private readonly scope = new AsyncLocalStorage<ReadonlyMap<string, Hold>>();

  constructor(
    private readonly redis: RedisClientType,
    private readonly ttlMs = 20_000,
    private readonly waitMs = 10_000,
    private readonly warn: (msg: string, err: unknown) => void = console.warn,
  ) {}

  async run<T>(name: string, fn: (lease: Lease) => Promise<T>): Promise<T> {
    const outer = this.scope.getStore();
    const held = outer?.get(name);
    if (held && held.users > 0) return this.enter(held, fn);

    const hold = await this.acquire(name);
    return this.scope.run(new Map(outer ?? []).set(name, hold), () => this.enter(hold, fn));
  }

  private async enter<T>(hold: Hold, fn: (lease: Lease) => Promise<T>): Promise<T> {
    hold.users++;
    try {
      hold.signal.throwIfAborted();
      const result = await fn(hold);
      hold.signal.throwIfAborted();
      return result;
    } finally {
      if (--hold.users === 0) await this.leave(hold);
    }
  }

  private async acquire(name: string): Promise<Hold> {
    const key = `mutex:{${name}}`;
    const token = randomUUID();
    const giveUpAt = performance.now() + this.waitMs;
    try {
      for (;;) {
        const sentAt = performance.now();
        const fence = Number(
          await this.redis.eval(ACQUIRE, { keys: [key, `${key}:fence`], arguments: [token, String(this.ttlMs)] }),
        );
        if (fence > 0 && performance.now() - sentAt < this.ttlMs / 2) {
          const abort = new AbortController();
          const hold: Hold = { key, token, fence, users: 0, abort, signal: abort.signal };
          this.armLapse(hold, sentAt);
          this.scheduleRenewal(hold);
          return hold;
        }
        if (performance.now() >= giveUpAt) throw new MutexTimeoutError(`waited too long for ${name}`);
        await delay(50 + Math.random() * 100);
      }
    } catch (err) {
      // the reply may have been lost or late after the command was carried out
      void this.drop(key, token);
      throw err;
    }
  }

  private armLapse(hold: Hold, renewedAt: number): void {
    clearTimeout(hold.lapseTimer);
    const left = renewedAt + this.ttlMs * 0.9 - performance.now();
    hold.lapseTimer = setTimeout(() => this.lose(hold), Math.max(0, left));
  }

  private scheduleRenewal(hold: Hold): void {
    hold.renewTimer = setTimeout(async () => {
      const sentAt = performance.now();
      try {
        const ok = await this.redis.eval(RENEW, { keys: [hold.key], arguments: [hold.token, String(this.ttlMs)] });
        if (hold.users === 0 || hold.signal.aborted) return;
        if (Number(ok) !== 1) return this.lose(hold);
        this.armLapse(hold, sentAt);
      } catch (err) {
        this.warn(`renewing ${hold.key} failed`, err);
        if (hold.users === 0 || hold.signal.aborted) return;
      }
      this.scheduleRenewal(hold);
    }, this.ttlMs / 4);
  }

  private lose(hold: Hold): void {
    clearTimeout(hold.renewTimer);
    clearTimeout(hold.lapseTimer);
    hold.abort.abort(new MutexLostError(`lost ${hold.key}`));
  }

  private async leave(hold: Hold): Promise<void> {
    clearTimeout(hold.renewTimer);
    clearTimeout(hold.lapseTimer);
    await this.drop(hold.key, hold.token);
  }

  private async drop(key: string, token: string): Promise<void> {
    await this.redis
      .eval(RELEASE, { keys: [key], arguments: [token] })
      .catch((err) => this.warn(`releasing ${key} failed, it will expire`, err));
  }
}
