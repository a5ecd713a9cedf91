import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export interface StockRow {
  sku: string;
  available: number;
  reserved: number;
}

export interface StockRepository {
  find(sku: string): Promise<StockRow | null>;
  save(row: StockRow, signal: AbortSignal): Promise<void>;
  addReservation(orderId: string, sku: string, quantity: number, signal: AbortSignal): Promise<void>;
}

export class OutOfStockError extends Error {}
export class StockBusyError extends Error {}

const LOCK_MS = 10_000;
const SPARE_MS = 2_500;
const WAIT_MS = 4_000;

const UNLOCK_LUA =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

export class InventoryService {
  #redis: Redis;
  #stock: StockRepository;

  constructor(redis: Redis, stock: StockRepository) {
    this.#redis = redis;
    this.#stock = stock;
  }

  /** Moves `quantity` pieces from available to reserved on behalf of an order. */
  async reserve(orderId: string, sku: string, quantity: number): Promise<StockRow> {
    if (!Number.isInteger(quantity) || quantity <= 0) throw new RangeError('quantity');

    const row = await this.#stock.find(sku);
    if (!row) throw new Error(`unknown sku ${sku}`);
    // Sold out articles get hammered during sales, so turn those away cheaply.
    if (row.available < quantity) throw new OutOfStockError(sku);

    const lock = await this.#lock(`stock:${sku}:lock`);
    try {
      const msLeft = lock.until - performance.now();
      if (msLeft <= 0) throw new StockBusyError(sku);
      const signal = AbortSignal.timeout(Math.floor(msLeft));

      const updated: StockRow = {
        ...row,
        available: row.available - quantity,
        reserved: row.reserved + quantity,
      };
      await this.#stock.save(updated, signal);
      await this.#stock.addReservation(orderId, sku, quantity, signal);
      return updated;
    } finally {
      await this.#unlock(lock);
    }
  }

  async #lock(key: string): Promise<{ key: string; token: string; until: number }> {
    const token = randomUUID();
    const giveUpAt = performance.now() + WAIT_MS;
    for (;;) {
      const sentAt = performance.now();
      const reply = await this.#redis.set(key, token, 'PX', LOCK_MS, 'NX');
      if (reply === 'OK') return { key, token, until: sentAt + LOCK_MS - SPARE_MS };
      if (performance.now() > giveUpAt) throw new StockBusyError(key);
      await sleep(40 + Math.random() * 80);
    }
  }

  async #unlock(lock: { key: string; token: string }): Promise<void> {
    try {
      await this.#redis.eval(UNLOCK_LUA, 1, lock.key, lock.token);
    } catch {
      // expires by itself
    }
  }
}
