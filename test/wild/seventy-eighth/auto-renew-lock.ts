import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Lock that keeps itself alive.
 *
 *   await using lock = await AutoRenewLock.acquire(redis, 'export:42');
 *   for (const page of pages) {
 *     lock.signal.throwIfAborted();
 *     await writePage(page);
 *   }
 */

const UNLOCK = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0
`;

export class LockUnavailable extends Error {
  constructor(public readonly resource: string) {
    super(`could not get lock "${resource}"`);
  }
}

export class LockLost extends Error {
  constructor(public readonly resource: string) {
    super(`lock "${resource}" was lost`);
  }
}

export interface AcquireOptions {
  ttlMs?: number;
  retries?: number;
  retryDelayMs?: number;
}

export class AutoRenewLock implements AsyncDisposable {
  private readonly controller = new AbortController();
  private timer?: NodeJS.Timeout;
  private lastRenewed: number;
  private released = false;

  private constructor(
    private readonly redis: Redis,
    readonly resource: string,
    private readonly token: string,
    private readonly ttlMs: number,
    acquiredAt: number,
  ) {
    this.lastRenewed = acquiredAt;
    this.schedule();
  }

  static async acquire(redis: Redis, resource: string, opts: AcquireOptions = {}) {
    const { ttlMs = 12_000, retries = 20, retryDelayMs = 250 } = opts;
    const token = randomUUID();

    for (let i = 0; i <= retries; i++) {
      const startedAt = Date.now();
      const ok = await redis.set(`lock:${resource}`, token, 'PX', ttlMs, 'NX');
      if (ok === 'OK') {
        return new AutoRenewLock(redis, resource, token, ttlMs, startedAt);
      }
      await new Promise((r) => setTimeout(r, retryDelayMs + Math.random() * 100));
    }
    throw new LockUnavailable(resource);
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  private schedule() {
    this.timer = setTimeout(() => void this.renew(), this.ttlMs / 3);
    this.timer.unref();
  }

  private async renew() {
    if (this.released) return;
    const sentAt = Date.now();
    try {
      // XX: only if the key is still there, an expired lock must not come back to life
      const ok = await this.redis.set(`lock:${this.resource}`, this.token, 'PX', this.ttlMs, 'XX');
      if (ok !== 'OK') {
        this.lose();
        return;
      }
      this.lastRenewed = sentAt;
    } catch (err) {
      console.warn(`[lock] renewing ${this.resource} failed:`, (err as Error).message);
      if (Date.now() - this.lastRenewed > this.ttlMs * 0.6) {
        this.lose();
        return;
      }
    }
    if (!this.released) this.schedule();
  }

  private lose() {
    if (!this.released) this.controller.abort(new LockLost(this.resource));
  }

  async release(): Promise<void> {
    if (this.released) return;
    this.released = true;
    clearTimeout(this.timer);
    await this.redis.eval(UNLOCK, 1, `lock:${this.resource}`, this.token);
  }

  async [Symbol.asyncDispose]() {
    await this.release().catch((err) => {
      console.warn(`[lock] releasing ${this.resource} failed:`, err.message);
    });
  }
}
