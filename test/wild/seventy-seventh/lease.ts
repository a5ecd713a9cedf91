/**
 * Distributed lease on a single Redis node, for use with `await using`.
 *
 * @example
 * ```ts
 * await using lease = await leases.acquire(`itinerary:${id}`, { ttlMs: 10_000 });
 * const priced = await reprice(id, { signal: lease.signal });
 * lease.assertHeld();
 * await save(priced); // UPDATE ... WHERE version = $n
 * ```
 *
 * A lease keeps two workers from doing the same thing at the same time as long as it is
 * valid, and tells its holder when it no longer is. It is not a fence: a process that is
 * frozen right after `assertHeld()` can still have one write under way when it wakes up,
 * so the final write should be conditional (version column, unique index).
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const ACQUIRE = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;
const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

/** Share of the TTL that we count on; the rest is for clock drift between us and Redis. */
const SAFE_SHARE = 0.95;

export class LeaseTimeoutError extends Error {
  override name = 'LeaseTimeoutError';
}
export class LeaseLostError extends Error {
  override name = 'LeaseLostError';
}

export interface AcquireOptions {
  /** Time after which Redis drops the lease if it is not renewed. Default 15 s. */
  ttlMs?: number;
  /** How long to wait for another holder. Default 5 s. */
  waitMs?: number;
  /** Told of errors in the background (renewal, release). */
  onError?: (error: unknown) => void;
}

export class Lease implements AsyncDisposable {
  readonly #controller = new AbortController();
  #renewTimer?: NodeJS.Timeout;
  #expiryTimer?: NodeJS.Timeout;
  #disposed = false;

  constructor(
    private readonly redis: Redis,
    readonly key: string,
    private readonly token: string,
    private readonly ttlMs: number,
    private deadline: number,
    private readonly onError: (error: unknown) => void,
  ) {
    this.#armExpiry();
    this.#scheduleRenewal();
  }

  /** Aborted as soon as the lease is known, or has to be assumed, to be gone. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  assertHeld(): void {
    if (!this.#disposed && performance.now() >= this.deadline) this.#lose();
    if (this.#disposed || this.signal.aborted) throw new LeaseLostError(`Lease on "${this.key}" is gone`);
  }

  #lose(): void {
    clearTimeout(this.#renewTimer);
    clearTimeout(this.#expiryTimer);
    this.#controller.abort(new LeaseLostError(`Lease on "${this.key}" was lost`));
  }

  #armExpiry(): void {
    clearTimeout(this.#expiryTimer);
    this.#expiryTimer = setTimeout(() => this.#lose(), Math.max(0, this.deadline - performance.now()));
  }

  #scheduleRenewal(): void {
    this.#renewTimer = setTimeout(() => void this.#renew(), this.ttlMs / 3);
  }

  async #renew(): Promise<void> {
    const sentAt = performance.now();
    try {
      const renewed = await this.redis.eval(RENEW, 1, this.key, this.token, this.ttlMs);
      if (this.#disposed || this.signal.aborted) return;
      if (renewed !== 1) return this.#lose();
      this.deadline = sentAt + this.ttlMs * SAFE_SHARE;
      this.#armExpiry();
    } catch (error) {
      this.onError(error); // the expiry timer keeps running
    }
    if (!this.#disposed && !this.signal.aborted) this.#scheduleRenewal();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#disposed) return;
    this.#disposed = true;
    clearTimeout(this.#renewTimer);
    clearTimeout(this.#expiryTimer);
    await this.redis.eval(RELEASE, 1, this.key, this.token).catch(this.onError);
  }
}

export class Leases {
  constructor(private readonly redis: Redis, private readonly prefix = 'lease:') {}

  async acquire(name: string, options: AcquireOptions = {}): Promise<Lease> {
    const { ttlMs = 15_000, waitMs = 5_000, onError = () => {} } = options;
    const key = this.prefix + name;
    const token = randomUUID();
    const giveUpAt = performance.now() + waitMs;

    for (;;) {
      const deadline = performance.now() + ttlMs * SAFE_SHARE;
      try {
        if ((await this.redis.eval(ACQUIRE, 1, key, token, ttlMs)) === 1) {
          if (performance.now() < deadline) return new Lease(this.redis, key, token, ttlMs, deadline, onError);
          await this.redis.eval(RELEASE, 1, key, token);
        }
      } catch (error) {
        void this.redis.eval(RELEASE, 1, key, token).catch(onError);
        throw error;
      }
      if (performance.now() >= giveUpAt) throw new LeaseTimeoutError(`"${name}" still taken after ${waitMs} ms`);
      await sleep(50 + Math.random() * 100);
    }
  }
}
