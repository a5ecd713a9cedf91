import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { createClient } from "redis";

type RedisClient = ReturnType<typeof createClient>;

export interface StockItem {
  sku: string;
  available: number;
  reservations: Record<string, number>;
}

export interface StockRepository {
  find(sku: string): Promise<StockItem | null>;
  save(item: StockItem, opts: { signal: AbortSignal }): Promise<void>;
}

export class UnknownSkuError extends Error {}
export class OutOfStockError extends Error {}
export class StockBusyError extends Error {}

const LOCK_TTL_MS = 8_000;
const WORK_MS = 5_000;
const MAX_WAIT_MS = 4_000;

const RELEASE = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0
`;

export class StockReservations {
  private readonly redis: RedisClient;
  private readonly stock: StockRepository;

  constructor(redis: RedisClient, stock: StockRepository) {
    this.redis = redis;
    this.stock = stock;
  }

  /** Sets `quantity` pieces aside for the order and returns what is left. */
  async reserve(sku: string, quantity: number, orderId: string): Promise<number> {
    const item = await this.stock.find(sku);
    if (!item) throw new UnknownSkuError(sku);
    if (item.available < quantity) throw new OutOfStockError(sku);

    return this.locked(sku, async (signal) => {
      const updated: StockItem = {
        ...item,
        available: item.available - quantity,
        reservations: {
          ...item.reservations,
          [orderId]: (item.reservations[orderId] ?? 0) + quantity,
        },
      };
      await this.stock.save(updated, { signal });
      return updated.available;
    });
  }

  private async locked<T>(sku: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const key = `stock-lock:${sku}`;
    const token = randomUUID();
    const signal = await this.acquire(key, token);
    try {
      return await work(signal);
    } finally {
      await this.redis
        .eval(RELEASE, { keys: [key], arguments: [token] })
        .catch((err) => console.warn(`${key} is left to its ttl`, err));
    }
  }

  /** Waits for the lock; resolves to a signal that fires well before the lock expires. */
  private async acquire(key: string, token: string): Promise<AbortSignal> {
    const giveUpAt = performance.now() + MAX_WAIT_MS;
    for (;;) {
      const signal = AbortSignal.timeout(WORK_MS);
      const reply = await this.redis.set(key, token, {
        condition: "NX",
        expiration: { type: "PX", value: LOCK_TTL_MS },
      });
      if (reply === "OK") return signal;
      if (performance.now() >= giveUpAt) throw new StockBusyError(key);
      await sleep(40 + Math.random() * 80);
    }
  }
}
