import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";

const EXTEND = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call("pexpire", KEYS[1], ARGV[2])`;

const RELEASE = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call("del", KEYS[1])`;

export class TenantLock implements AsyncDisposable {
  readonly #redis: Redis;
  readonly #key: string;
  readonly #token: string;
  readonly #ttlMs: number;
  readonly #lost = new AbortController();
  #deadline = 0;
  #expiry?: NodeJS.Timeout;
  #renewal?: NodeJS.Timeout;
  #closed = false;

  private constructor(redis: Redis, key: string, token: string, ttlMs: number, sentAt: number) {
    this.#redis = redis;
    this.#key = key;
    this.#token = token;
    this.#ttlMs = ttlMs;
    this.#leaseFrom(sentAt);
    this.#scheduleRenewal();
  }

  static async acquire(redis: Redis, key: string, ttlMs: number): Promise<TenantLock | null> {
    const token = randomUUID();
    const sentAt = performance.now();
    try {
      if ((await redis.set(key, token, "PX", ttlMs, "NX")) === "OK") {
        return new TenantLock(redis, key, token, ttlMs, sentAt);
      }
    } catch (err) {
      await redis.eval(RELEASE, 1, key, token).catch(() => {});
      throw err;
    }
    // a resent SET is refused by its own first copy; give that one back
    await redis.eval(RELEASE, 1, key, token);
    return null;
  }

  /** Fires for good once the lock is lost or can no longer be vouched for. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  assertHeld(): void {
    if (performance.now() >= this.#deadline) this.#lose("lease ran out");
    this.#lost.signal.throwIfAborted();
  }

  // counted from before the request was sent, minus a margin for clock drift
  #leaseFrom(sentAt: number): void {
    this.#deadline = sentAt + this.#ttlMs * 0.95;
    clearTimeout(this.#expiry);
    this.#expiry = setTimeout(() => this.#lose("lease ran out"), this.#deadline - performance.now());
  }

  #scheduleRenewal(): void {
    this.#renewal = setTimeout(() => void this.#renew(), this.#ttlMs / 3);
  }

  async #renew(): Promise<void> {
    const sentAt = performance.now();
    if (sentAt >= this.#deadline) return this.#lose("lease ran out");
    try {
      const extended = await this.#redis.eval(EXTEND, 1, this.#key, this.#token, this.#ttlMs);
      if (this.#closed || this.#lost.signal.aborted) return;
      if (extended !== 1) return this.#lose("taken over");
      this.#leaseFrom(sentAt);
    } catch (err) {
      // the expiry timer runs on and ends this if no later try succeeds
      console.warn(`[tenant-lock] renewing ${this.#key} failed`, err);
    }
    if (!this.#closed && !this.#lost.signal.aborted) this.#scheduleRenewal();
  }

  #lose(why: string): void {
    clearTimeout(this.#renewal);
    clearTimeout(this.#expiry);
    if (!this.#closed) this.#lost.abort(new Error(`${this.#key}: ${why}`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#renewal);
    clearTimeout(this.#expiry);
    // on failure the TTL clears the key
    await this.#redis.eval(RELEASE, 1, this.#key, this.#token).catch(() => {});
  }
}

export async function migrateTenant(redis: Redis, tenantId: string, steps: Array<(s: AbortSignal) => Promise<void>>): Promise<boolean> {
  await using lock = await TenantLock.acquire(redis, `migrate:${tenantId}`, 20_000);
  if (!lock) return false;
  for (const step of steps) {
    lock.assertHeld();
    await step(lock.signal);
  }
  lock.assertHeld();
  return true;
}
