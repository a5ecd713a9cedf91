import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from '@upstash/redis';

// Product pages are expensive (9 queries). When one drops out of the cache we
// want a single edge function to rebuild it while the others wait a little.

const FRESH_SECONDS = 300;
const BUILD_LOCK_MS = 10_000;
const MAX_WAIT_MS = 4_000;
const POLL_MS = 120;

const STORE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[2], ARGV[2], 'EX', ARGV[3])
  return 1
end
return 0`;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface ProductPage {
  sku: string;
  html: string;
  builtAt: number;
}

type Entry = { page: ProductPage | null };

export function createProductPages(redis: Redis, build: (sku: string) => Promise<ProductPage | null>) {
  async function rebuild(sku: string, cacheKey: string, lockKey: string, token: string): Promise<ProductPage | null> {
    try {
      // somebody may have finished between our miss and our lock
      const again = await redis.get<Entry>(cacheKey);
      if (again) return again.page;

      const page = await build(sku);
      const entry: Entry = { page };
      // a build slower than its lock is shown to its own visitor but not stored
      await redis.eval(STORE, [lockKey, cacheKey], [token, JSON.stringify(entry), String(FRESH_SECONDS)]);
      return page;
    } finally {
      await redis.eval(UNLOCK, [lockKey], [token]).catch(() => undefined);
    }
  }

  return async function productPage(sku: string): Promise<ProductPage | null> {
    const cacheKey = `page:{${sku}}`;
    const lockKey = `page:{${sku}}:build`;
    const token = randomUUID();
    const waitUntil = Date.now() + MAX_WAIT_MS;

    for (;;) {
      const hit = await redis.get<Entry>(cacheKey);
      if (hit) return hit.page;

      const reply = await redis.set(lockKey, token, { nx: true, px: BUILD_LOCK_MS });
      if (reply === 'OK') return rebuild(sku, cacheKey, lockKey, token);

      // a visitor does not wait longer than this: one more build is cheaper
      if (Date.now() >= waitUntil) return build(sku);
      await sleep(POLL_MS + Math.random() * POLL_MS);
    }
  };
}
