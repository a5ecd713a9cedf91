import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export interface SingleFlightOptions {
  freshSeconds: number;
  /** how long a loader may take; the lock lives three times as long */
  loadMs: number;
}

const PUT = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[2], ARGV[2], 'EX', ARGV[3])
return redis.call('del', KEYS[1])
`;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0
`;

/**
 * Read-through cache for the catalogue service, which tolerates only one full query at a time.
 * Callers that do not get the lock wait for the value; they never load by themselves.
 *
 * The loader must reject when its signal aborts.
 */
export class CatalogCache {
  constructor(private readonly redis: Redis, private readonly opts: SingleFlightOptions) {}

  async get<T>(name: string, load: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const valueKey = `{catalog:${name}}:value`;
    const lockKey = `{catalog:${name}}:loading`;
    const { loadMs, freshSeconds } = this.opts;
    const giveUp = performance.now() + 4 * loadMs;

    while (performance.now() < giveUp) {
      const hit = await this.redis.get(valueKey);
      if (hit !== null) return JSON.parse(hit) as T;

      const token = randomUUID();
      const sentAt = performance.now();
      if ((await this.redis.set(lockKey, token, 'PX', 3 * loadMs, 'NX')) !== 'OK') {
        await sleep(30 + Math.random() * 40);
        continue;
      }

      try {
        // somebody may have finished between our GET and our SET
        const justNow = await this.redis.get(valueKey);
        if (justNow !== null) return JSON.parse(justNow) as T;

        if (performance.now() - sentAt > loadMs) throw new Error('redis is too slow to load under a lock');
        const value = await load(AbortSignal.timeout(loadMs));
        const json = JSON.stringify(value);

        const put = await this.redis.eval(PUT, 2, lockKey, valueKey, token, json, freshSeconds);
        if (put !== 1) console.warn(`loading ${name} took longer than its lock; value not cached`);
        return value;
      } finally {
        await this.redis.eval(UNLOCK, 1, lockKey, token).catch(() => undefined);
      }
    }
    throw new Error(`catalog ${name}: no value within ${4 * loadMs} ms`);
  }
}
