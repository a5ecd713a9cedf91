import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

const TTL_MS = 20_000;
const LOCKING_BUDGET_MS = 4_000;

const DEL_IF_MINE = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

export class StockLockTimeout extends Error {}

// node-redis 5
class SkuLock implements AsyncDisposable {
  private constructor(
    private readonly redis: RedisClientType,
    private readonly key: string,
    private readonly token: string,
  ) {}

  static async take(redis: RedisClientType, sku: string, deadline: number): Promise<SkuLock> {
    const key = `shop:stock-lock:${sku}`;
    const token = randomUUID();
    while (true) {
      const reply = await redis.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: TTL_MS } });
      if (reply === 'OK') return new SkuLock(redis, key, token);
      if (performance.now() >= deadline) throw new StockLockTimeout(sku);
      await pause(40 + Math.random() * 80);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.redis.eval(DEL_IF_MINE, { keys: [this.key], arguments: [this.token] });
    } catch (err) {
      console.error('stock lock not released, left to expire', this.key, err);
    }
  }
}

export interface CartLine {
  sku: string;
  quantity: number;
}

export interface StockTable {
  available(sku: string): Promise<number>;
  /** one short transaction, cancelled by the database after 5 s */
  writeReservation(orderId: string, rows: { sku: string; quantity: number; left: number }[]): Promise<void>;
}

export type ReserveOutcome = { reserved: true } | { reserved: false; soldOut: string[] };

export async function reserveCart(
  ctx: { redis: RedisClientType; stock: StockTable },
  orderId: string,
  cart: readonly CartLine[],
): Promise<ReserveOutcome> {
  const wanted = new Map<string, number>();
  for (const { sku, quantity } of cart) wanted.set(sku, (wanted.get(sku) ?? 0) + quantity);

  // always in the same order, or two carts could wait for each other
  const skus = [...wanted.keys()].sort();

  await using locks = new AsyncDisposableStack();
  const deadline = performance.now() + LOCKING_BUDGET_MS;
  for (const sku of skus) locks.use(await SkuLock.take(ctx.redis, sku, deadline));

  const levels = await Promise.all(skus.map((sku) => ctx.stock.available(sku)));
  const rows = skus.map((sku, i) => ({
    sku,
    quantity: wanted.get(sku)!,
    left: levels[i]! - wanted.get(sku)!,
  }));

  const soldOut = rows.filter((r) => r.left < 0).map((r) => r.sku);
  if (soldOut.length > 0) return { reserved: false, soldOut };

  await ctx.stock.writeReservation(orderId, rows);
  return { reserved: true };
}
