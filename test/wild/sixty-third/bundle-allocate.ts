import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { InventoryDb } from './db';
import type { Logger } from './logger';

const LOCK_TTL_MS = 15_000;
const TX_TIMEOUT_MS = 5_000;
const MAX_TRIES = 10;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface BundleLine {
  sku: string;
  quantity: number;
}

export class OutOfStockError extends Error {
  readonly sku: string;
  constructor(sku: string) {
    super(`not enough stock of ${sku}`);
    this.name = 'OutOfStockError';
    this.sku = sku;
  }
}

interface Deps {
  redis: Redis;
  db: InventoryDb;
  logger: Logger;
}

const lockKey = (sku: string) => `lock:sku:${sku}`;

async function unlockAll(redis: Redis, keys: string[], token: string): Promise<void> {
  const pipeline = redis.pipeline();
  for (const key of keys) pipeline.eval(UNLOCK, 1, key, token);
  await pipeline.exec();
}

/** Locks all keys in one round trip, or none of them. */
async function lockAll(redis: Redis, keys: string[]): Promise<string | null> {
  const token = randomUUID();
  const pipeline = redis.pipeline();
  for (const key of keys) pipeline.set(key, token, 'PX', LOCK_TTL_MS, 'NX');

  const results = await pipeline.exec();
  const locked = results !== null && results.every(([err]) => err === null);
  if (locked) return token;

  await unlockAll(redis, keys, token);
  return null;
}

const backoff = (attempt: number) =>
  new Promise((resolve) => setTimeout(resolve, 50 * attempt + Math.random() * 100));

async function lockWithRetry(redis: Redis, keys: string[]): Promise<string> {
  for (let attempt = 1; attempt <= MAX_TRIES; attempt += 1) {
    const token = await lockAll(redis, keys);
    if (token !== null) return token;
    await backoff(attempt);
  }
  throw new Error(`could not lock ${keys.join(', ')}`);
}

/**
 * Allocates every component of a bundle to an order. The stock table keeps
 * absolute numbers (it is replicated from the ERP), so allocation is a
 * read and a write.
 */
export function createBundleAllocator({ redis, db, logger }: Deps) {
  return async function allocate(orderId: string, lines: BundleLine[]): Promise<void> {
    const skus = [...new Set(lines.map((line) => line.sku))].sort();
    const keys = skus.map(lockKey);
    const token = await lockWithRetry(redis, keys);

    try {
      await db.transaction({ timeoutMs: TX_TIMEOUT_MS }, async (tx) => {
        const stock = await tx.stockLevels(skus);
        for (const line of lines) {
          const available = stock.get(line.sku) ?? 0;
          if (available < line.quantity) throw new OutOfStockError(line.sku);
          stock.set(line.sku, available - line.quantity);
        }
        for (const sku of skus) {
          await tx.setStockLevel(sku, stock.get(sku) ?? 0);
        }
        await tx.insertAllocation(orderId, lines);
      });
      logger.info({ orderId, skus }, 'bundle allocated');
    } finally {
      await unlockAll(redis, keys, token).catch((err) => {
        logger.warn({ err, keys }, 'sku locks not released, they will expire');
      });
    }
  };
}
