import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';

/** A grant of the mutex. Immutable; `extend` hands out a new one. */
export interface Lease {
  readonly key: string;
  readonly token: string;
  /** On the performance.now() clock of this process. */
  readonly validUntil: number;
}

export class LeaseLostError extends Error {
  override name = 'LeaseLostError';
}

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Mutual exclusion on one Redis primary.
 *
 * The object itself keeps no lock state, so one instance can serve any number
 * of concurrent callers. Long work is cut into steps; between the steps the
 * caller extends the lease and goes on with the one it gets back:
 *
 *   let lease = await mutex.acquire('ledger');
 *   if (!lease) return;
 *   try {
 *     for (const step of steps) {
 *       lease = await mutex.extend(lease);   // throws when it is gone
 *       await step(AbortSignal.timeout(mutex.msLeft(lease)));
 *     }
 *   } finally {
 *     await mutex.release(lease);
 *   }
 */
export class RedisMutex {
  readonly #redis: Redis;
  readonly #prefix: string;
  readonly #ttlMs: number;
  readonly #marginMs: number;

  constructor(redis: Redis, options: { prefix?: string; ttlMs?: number } = {}) {
    this.#redis = redis;
    this.#prefix = options.prefix ?? 'mutex';
    this.#ttlMs = options.ttlMs ?? 10_000;
    if (!Number.isInteger(this.#ttlMs) || this.#ttlMs < 1_000) {
      throw new RangeError('ttlMs must be a whole number of at least 1000');
    }
    this.#marginMs = Math.ceil(this.#ttlMs * 0.1);
  }

  /** Resolves to null when somebody else has it. */
  async acquire(name: string): Promise<Lease | null> {
    const key = `${this.#prefix}:${name}`;
    const token = randomBytes(16).toString('hex');
    const sentAt = performance.now();
    const reply = await this.#redis.set(key, token, 'PX', this.#ttlMs, 'NX');
    if (reply !== 'OK') return null;

    const lease = this.#lease(key, token, sentAt);
    if (this.msLeft(lease) > 0) return lease;

    // The reply was so slow that the lease is as good as over.
    await this.release(lease);
    return null;
  }

  /** Throws LeaseLostError when the lease is over or belongs to another by now. */
  async extend(lease: Lease): Promise<Lease> {
    if (this.msLeft(lease) <= 0) throw new LeaseLostError(`${lease.key} has run out`);
    const sentAt = performance.now();
    const extended = await this.#redis.eval(EXTEND, 1, lease.key, lease.token, this.#ttlMs);
    if (extended !== 1) throw new LeaseLostError(`${lease.key} is no longer ours`);

    const next = this.#lease(lease.key, lease.token, sentAt);
    if (this.msLeft(next) <= 0) throw new LeaseLostError(`${lease.key} was extended too slowly`);
    return next;
  }

  /** True when it was still ours. Never touches another holder's key. */
  async release(lease: Lease): Promise<boolean> {
    return (await this.#redis.eval(RELEASE, 1, lease.key, lease.token)) === 1;
  }

  /** Time the holder may still work, at least 0, with the safety margin taken off. */
  msLeft(lease: Lease): number {
    return Math.max(0, Math.floor(lease.validUntil - performance.now()));
  }

  #lease(key: string, token: string, sentAt: number): Lease {
    return Object.freeze({ key, token, validUntil: sentAt + this.#ttlMs - this.#marginMs });
  }
}
