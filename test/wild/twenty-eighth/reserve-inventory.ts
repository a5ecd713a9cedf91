import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/**
 * Reservation of stock for an order. The Redis lock keeps the pickers' planner (slow, it
 * asks the warehouse system) from being run for the same SKU by several order workers; the
 * fence number that comes with it is what the database goes by.
 */

const LOCK_TTL_MS = 20_000;
const ACQUIRE_TIMEOUT_MS = 5_000;

// KEYS: lock, fence counter. The counter never expires. Both share a hash tag.
const ACQUIRE_FENCED = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export interface Db {
  query<R = Record<string, unknown>>(
    sql: string,
    params: unknown[],
  ): Promise<{ rowCount: number; rows: R[] }>;
}

export type Planner = (sku: string, qty: number, available: number) => Promise<{ bins: string[] }>;

export class StockLockTimeout extends Error {}
export class StaleFence extends Error {}
export class OutOfStock extends Error {}

interface FencedLock {
  fence: number;
  release(): Promise<void>;
}

async function lockSku(redis: Redis, sku: string): Promise<FencedLock> {
  const lockKey = `stock:{${sku}}:lock`;
  const fenceKey = `stock:{${sku}}:fence`;
  const token = randomUUID();
  const giveUpAt = Date.now() + ACQUIRE_TIMEOUT_MS;

  for (;;) {
    const fence = Number(
      await redis.eval(ACQUIRE_FENCED, 2, lockKey, fenceKey, token, LOCK_TTL_MS),
    );
    if (fence > 0) {
      return {
        fence,
        async release() {
          try {
            await redis.eval(RELEASE, 1, lockKey, token);
          } catch (err) {
            console.warn(`[stock] release of ${sku} failed, TTL will free it`, err);
          }
        },
      };
    }
    if (Date.now() >= giveUpAt) throw new StockLockTimeout(`SKU ${sku} is busy`);
    await sleep(50 + Math.random() * 100);
  }
}

export async function reserve(
  redis: Redis,
  db: Db,
  plan: Planner,
  order: { id: string; sku: string; qty: number },
): Promise<{ bins: string[] }> {
  const lock = await lockSku(redis, order.sku);
  try {
    // Announce our fence before we read: from here on a lower one can write no more.
    const claimed = await db.query<{ on_hand: number; reserved: number }>(
      `UPDATE stock SET fence = $1 WHERE sku = $2 AND fence < $1 RETURNING on_hand, reserved`,
      [lock.fence, order.sku],
    );
    if (claimed.rowCount === 0) throw new StaleFence(`fence ${lock.fence} for ${order.sku}`);

    const [{ on_hand, reserved }] = claimed.rows;
    if (on_hand - reserved < order.qty) throw new OutOfStock(order.sku);

    const { bins } = await plan(order.sku, order.qty, on_hand - reserved);

    const written = await db.query(
      `WITH s AS (
         UPDATE stock SET reserved = reserved + $1
          WHERE sku = $2 AND fence = $3 AND on_hand - reserved >= $1
          RETURNING sku)
       INSERT INTO reservations (order_id, sku, qty, bins)
       SELECT $4, sku, $1, $5 FROM s`,
      [order.qty, order.sku, lock.fence, order.id, bins],
    );
    if (written.rowCount === 0) throw new StaleFence(`fence ${lock.fence} for ${order.sku}`);
    return { bins };
  } finally {
    await lock.release();
  }
}
