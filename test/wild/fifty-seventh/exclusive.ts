import { Redis } from '@upstash/redis';
import { nanoid } from 'nanoid';
import { shopify } from './shopify';
import { productStore } from './product-store';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

export class AlreadyRunningError extends Error {
  constructor(key: string) {
    super(`${key} is already running`);
    this.name = 'AlreadyRunningError';
  }
}

interface ExclusiveOptions<A extends unknown[]> {
  key: (...args: A) => string;
  ttlMs: number;
}

async function release(key: string, owner: string): Promise<void> {
  try {
    await redis.eval(UNLOCK, [key], [owner]);
  } catch (err) {
    console.warn('[exclusive] release failed, waiting for expiry', key, err);
  }
}

/**
 * Wraps an async function so that, for one key, it runs only once at a time across all
 * serverless instances. Pick a ttl that is safely longer than the function can take.
 */
export function exclusive<A extends unknown[], R>(
  options: ExclusiveOptions<A>,
  fn: (...args: A) => Promise<R>,
): (...args: A) => Promise<R> {
  return async (...args: A) => {
    const key = `excl:${options.key(...args)}`;
    const owner = nanoid();

    const acquired = await redis.set(key, owner, { nx: true, px: options.ttlMs });
    if (acquired !== 'OK') {
      throw new AlreadyRunningError(key);
    }

    try {
      return fn(...args);
    } finally {
      await release(key, owner);
    }
  };
}

// function timeout on the platform is 60s
export const pushProduct = exclusive(
  { key: (shop: string, productId: string) => `push:${shop}:${productId}`, ttlMs: 90_000 },
  async (shop: string, productId: string) => {
    const product = await productStore.get(productId);
    const remoteId = await productStore.remoteId(shop, productId);

    if (remoteId) {
      await shopify.updateProduct(shop, remoteId, product);
      return { remoteId, created: false };
    }

    // Shopify has no upsert, two creates in parallel would give two products
    const created = await shopify.createProduct(shop, product);
    await productStore.saveRemoteId(shop, productId, created.id);
    return { remoteId: created.id, created: true };
  },
);
