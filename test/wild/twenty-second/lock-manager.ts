import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import Redis from 'ioredis';

// One round trip. If the reply to an earlier attempt was lost, asking again
// simply confirms that the lock is ours.
const ACQUIRE = `
local owner = redis.call('get', KEYS[1])
if owner == false or owner == ARGV[1] then
  redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0
`;

// Only the owner may delete the lock.
const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

export interface RunOptions {
  ttlMs?: number;
  waitMs?: number;
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * Application-wide lock manager. Import the default export anywhere:
 *
 *   import locks from './lock-manager.ts';
 *   await locks.run('import:products', async (signal) => { ... });
 */
class LockManager {
  readonly #redis: Redis;
  // Globally unique, and readable when you look at the key in redis-cli.
  readonly #owner = `${hostname()}:${process.pid}:${randomUUID()}`;

  constructor(url: string) {
    this.#redis = new Redis(url, { maxRetriesPerRequest: 3 });
    this.#redis.on('error', (err) => console.error('[locks] redis error', err.message));
  }

  /**
   * Waits for the lock, then runs `work`. The signal is aborted well before the
   * lock expires; `work` has to stop when that happens.
   */
  async run<T>(
    name: string,
    work: (signal: AbortSignal) => Promise<T>,
    { ttlMs = 30_000, waitMs = 5_000 }: RunOptions = {},
  ): Promise<T> {
    const key = `locks:${name}`;
    const validUntil = await this.#acquire(key, ttlMs, waitMs);
    try {
      const remaining = Math.floor(validUntil - performance.now());
      if (remaining <= 0) throw new Error(`Lock ${name} was granted too late`);
      const signal = AbortSignal.timeout(remaining);
      const result = await work(signal);
      signal.throwIfAborted();
      return result;
    } finally {
      await this.#release(key);
    }
  }

  async #acquire(key: string, ttlMs: number, waitMs: number): Promise<number> {
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const sentAt = performance.now();
      const acquired = await this.#redis.eval(ACQUIRE, 1, key, this.#owner, ttlMs);
      // Keep 20% of the TTL as a safety margin.
      if (acquired === 1) return sentAt + ttlMs * 0.8;
      if (performance.now() >= giveUpAt) throw new Error(`Timed out waiting for ${key}`);
      await sleep(50 + Math.random() * 100);
    }
  }

  async #release(key: string): Promise<void> {
    try {
      await this.#redis.eval(RELEASE, 1, key, this.#owner);
    } catch (err) {
      console.warn(`[locks] could not release ${key}; it will expire`, err);
    }
  }
}

export default new LockManager(process.env.REDIS_URL ?? 'redis://localhost:6379');
