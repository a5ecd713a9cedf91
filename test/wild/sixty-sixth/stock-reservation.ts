import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export interface StockItem {
  sku: string;
  onHand: number;
  reserved: number;
  safetyStock: number;
  discontinued: boolean;
}

export interface StockRepository {
  findBySku(sku: string): Promise<StockItem | null>;
  save(item: StockItem, opts: { timeoutMs: number }): Promise<void>;
}

export interface Metrics {
  increment(name: string, tags?: Record<string, string>): void;
  timing(name: string, ms: number): void;
}

export interface ReservationEvents {
  reserved(e: { sku: string; qty: number; orderId: string; left: number }): Promise<void>;
}

export class OutOfStockError extends Error {
  constructor(readonly sku: string, readonly wanted: number, readonly available: number) {
    super(`sku ${sku}: wanted ${wanted}, available ${available}`);
    this.name = 'OutOfStockError';
  }
}

export class StockBusyError extends Error {
  constructor(sku: string) {
    super(`sku ${sku} is busy`);
    this.name = 'StockBusyError';
  }
}

const LOCK_TTL_MS = 10_000;
const SAVE_TIMEOUT_MS = 2_000;
const MAX_TRIES = 25;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class StockReservationService {
  constructor(
    private readonly redis: Redis,
    private readonly stock: StockRepository,
    private readonly events: ReservationEvents,
    private readonly metrics: Metrics,
  ) {}

  async reserve(orderId: string, sku: string, qty: number): Promise<{ left: number }> {
    if (!Number.isInteger(qty) || qty <= 0) {
      throw new RangeError(`bad quantity ${qty}`);
    }

    const item = await this.stock.findBySku(sku);
    if (!item || item.discontinued) {
      throw new OutOfStockError(sku, qty, 0);
    }

    const token = await this.lock(sku);
    let left: number;
    try {
      const available = item.onHand - item.reserved - item.safetyStock;
      if (available < qty) {
        this.metrics.increment('stock.reservation.rejected', { reason: 'out_of_stock' });
        throw new OutOfStockError(sku, qty, available);
      }
      item.reserved += qty;
      await this.stock.save(item, { timeoutMs: SAVE_TIMEOUT_MS });
      left = available - qty;
    } finally {
      await this.unlock(sku, token);
    }

    this.metrics.increment('stock.reservation.ok');
    await this.events.reserved({ sku, qty, orderId, left });
    return { left };
  }

  private key(sku: string): string {
    return `stock:lock:${sku.toUpperCase()}`;
  }

  private async lock(sku: string): Promise<string> {
    const token = randomUUID();
    const startedAt = Date.now();
    for (let i = 0; i < MAX_TRIES; i += 1) {
      const reply = await this.redis.set(this.key(sku), token, 'PX', LOCK_TTL_MS, 'NX');
      if (reply === 'OK') {
        this.metrics.timing('stock.lock.wait', Date.now() - startedAt);
        return token;
      }
      await delay(60 + Math.random() * 80);
    }
    this.metrics.increment('stock.lock.timeout');
    throw new StockBusyError(sku);
  }

  private async unlock(sku: string, token: string): Promise<void> {
    try {
      await this.redis.eval(UNLOCK, 1, this.key(sku), token);
    } catch {
      this.metrics.increment('stock.unlock.failed');
    }
  }
}
