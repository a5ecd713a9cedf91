import { randomUUID } from 'node:crypto';
import type { Redis } from '@upstash/redis';

export interface Price {
  sku: string;
  cents: number;
  currency: string;
}

export interface PricingGateway {
  /** Rejects as soon as the signal aborts. */
  quote(sku: string, opts: { signal: AbortSignal }): Promise<Price>;
}

export class PriceUnavailableError extends Error {}

const CACHE_TTL_MS = 5 * 60_000;
const LOCK_TTL_MS = 10_000;
const LOAD_BUDGET_MS = 7_000;
const WAIT_MS = 8_000;
const POLL_MS = 200;

// Only the holder of the refresh lock may publish; the lock goes with it.
const PUBLISH = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[2], ARGV[2], 'PX', ARGV[3])
redis.call('del', KEYS[1])
return 1`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

export class PriceCache {
  constructor(
    private readonly redis: Redis,
    private readonly gateway: PricingGateway,
  ) {}

  async get(sku: string): Promise<Price> {
    const deadline = Date.now() + WAIT_MS;
    for (;;) {
      const cached = await this.redis.get<Price>(this.cacheKey(sku));
      if (cached !== null) return cached;

      const fresh = await this.tryLoad(sku);
      if (fresh) return fresh;

      if (Date.now() >= deadline) {
        throw new PriceUnavailableError(`no price for ${sku} within ${WAIT_MS} ms`);
      }
      await sleep(POLL_MS);
    }
  }

  /** Loads the price if nobody else is doing so; otherwise undefined. */
  private async tryLoad(sku: string): Promise<Price | undefined> {
    const lockKey = this.lockKey(sku);
    const token = randomUUID();
    const startedAt = Date.now();
    let published = false;
    let acquired = false;
    try {
      const reply = await this.redis.set(lockKey, token, { nx: true, px: LOCK_TTL_MS });
      acquired = reply === 'OK';
    } catch (err) {
      await this.release(lockKey, token);
      throw err;
    }
    if (!acquired) return undefined;

    try {
      // Someone may have published between our read and our lock.
      const cached = await this.redis.get<Price>(this.cacheKey(sku));
      if (cached !== null) return cached;

      const left = startedAt + LOAD_BUDGET_MS - Date.now();
      if (left <= 0) throw new PriceUnavailableError(`no time left to load ${sku}`);
      const price = await this.gateway.quote(sku, { signal: AbortSignal.timeout(left) });

      const kept = await this.redis.eval(
        PUBLISH,
        [lockKey, this.cacheKey(sku)],
        [token, JSON.stringify(price), String(CACHE_TTL_MS)],
      );
      published = kept === 1;
      return price;
    } finally {
      if (!published) await this.release(lockKey, token);
    }
  }

  private async release(lockKey: string, token: string): Promise<void> {
    try {
      await this.redis.eval(RELEASE, [lockKey], [token]);
    } catch (err) {
      console.warn('price lock left to its TTL', lockKey, err);
    }
  }

  private cacheKey(sku: string): string {
    return `price:{${sku}}`;
  }

  private lockKey(sku: string): string {
    return `price:{${sku}}:refresh`;
  }
}
