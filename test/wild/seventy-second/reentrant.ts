import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

export class LockLostError extends Error {}
export class LockTimeoutError extends Error {}

class Hold {
  depth = 0;
  private until: number;
  private readonly ctl = new AbortController();
  private readonly heartbeat: NodeJS.Timeout;
  private watchdog: NodeJS.Timeout | undefined;

  constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
    private readonly ttl: number,
    since: number,
  ) {
    this.until = since + ttl * 0.9;
    this.arm();
    this.heartbeat = setInterval(() => void this.extend(), ttl / 3);
  }

  get signal(): AbortSignal {
    return this.ctl.signal;
  }

  /** Throws when the lock is, or may be, no longer ours. */
  assertHeld(): void {
    if (performance.now() >= this.until) this.lose('lease ran out');
    this.ctl.signal.throwIfAborted();
  }

  async end(): Promise<void> {
    clearInterval(this.heartbeat);
    clearTimeout(this.watchdog);
    await this.redis.eval(RELEASE, 1, this.key, this.token).catch(() => undefined);
  }

  private async extend(): Promise<void> {
    const asked = performance.now();
    try {
      const ok = await this.redis.eval(EXTEND, 1, this.key, this.token, this.ttl);
      if (this.ctl.signal.aborted || this.depth === 0) return;
      if (ok !== 1) return this.lose('taken over');
      this.until = asked + this.ttl * 0.9;
      this.arm();
    } catch {
      // tried again at the next beat; the watchdog has the last word
    }
  }

  private arm(): void {
    clearTimeout(this.watchdog);
    const left = Math.max(0, this.until - performance.now());
    this.watchdog = setTimeout(() => this.lose('lease ran out'), left);
  }

  private lose(why: string): void {
    if (this.ctl.signal.aborted) return;
    clearInterval(this.heartbeat);
    clearTimeout(this.watchdog);
    this.ctl.abort(new LockLostError(`${this.key}: ${why}`));
  }
}

export type Lease = Pick<Hold, 'signal' | 'assertHeld'>;

/**
 * A lock which may be taken again by code called from inside of it. "Inside"
 * follows the async context, so what a holder starts shares the hold, branches
 * of a Promise.all included. The key is given back by the last one to leave.
 * Long work should call lease.assertHeld() ahead of each side effect.
 */
export class ReentrantLock {
  private readonly scope = new AsyncLocalStorage<ReadonlyMap<string, Hold>>();

  constructor(private readonly redis: Redis, private readonly ttl = 10_000) {}

  async run<T>(name: string, fn: (lease: Lease) => Promise<T>, waitMs = 15_000): Promise<T> {
    const outer = this.scope.getStore();
    const held = outer?.get(name);
    if (held && held.depth > 0) return this.enter(held, fn);

    const hold = await this.acquire(`lock:${name}`, waitMs);
    const inner = new Map(outer ?? []).set(name, hold);
    return this.scope.run(inner, () => this.enter(hold, fn));
  }

  private async enter<T>(hold: Hold, fn: (lease: Lease) => Promise<T>): Promise<T> {
    hold.depth++;
    try {
      hold.assertHeld();
      const result = await fn(hold);
      hold.assertHeld();
      return result;
    } finally {
      if (--hold.depth === 0) await hold.end();
    }
  }

  private async acquire(key: string, waitMs: number): Promise<Hold> {
    const token = randomUUID();
    const giveUp = performance.now() + waitMs;
    for (;;) {
      const asked = performance.now();
      let ok: string | null;
      try {
        ok = await this.redis.set(key, token, 'PX', this.ttl, 'NX');
        if (ok === null && (await this.redis.get(key)) === token) ok = 'OK';
      } catch (err) {
        await this.redis.eval(RELEASE, 1, key, token).catch(() => undefined);
        throw err;
      }
      if (ok === 'OK') return new Hold(this.redis, key, token, this.ttl, asked);
      if (performance.now() >= giveUp) throw new LockTimeoutError(`${key} stayed locked for ${waitMs} ms`);
      await sleep(50 + Math.random() * 100);
    }
  }
}
