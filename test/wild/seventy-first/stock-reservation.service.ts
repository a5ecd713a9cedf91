import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { logger } from '../lib/logger';

export class OutOfStockError extends Error {
  constructor(readonly sku: string, readonly available: number) {
    super(`only ${available} of ${sku} left`);
  }
}

export class StockBusyError extends Error {}

const OWNER = `${hostname()}:${process.pid}:${randomUUID()}`;
const LOCK_TTL = 10_000;
const MAX_WAIT = 3_000;

// ioredis sends a command again after a reconnect, the second one must not lose against the first.
const LOCK_SCRIPT = `
local v = redis.call('get', KEYS[1])
if v == false then
  redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
elseif v == ARGV[1] then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
return 0
`;

const UNLOCK_SCRIPT = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

export class StockReservationService {
  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
  ) {}

  private async lock(sku: string): Promise<void> {
    const until = Date.now() + MAX_WAIT;
    do {
      const ok = await this.redis.eval(LOCK_SCRIPT, 1, `stock:lock:${sku}`, OWNER, LOCK_TTL);
      if (ok === 1) return;
      await delay(40 + Math.random() * 60);
    } while (Date.now() < until);
    throw new StockBusyError(sku);
  }

  private async unlock(sku: string): Promise<void> {
    try {
      await this.redis.eval(UNLOCK_SCRIPT, 1, `stock:lock:${sku}`, OWNER);
    } catch (err) {
      logger.warn({ err, sku }, 'stock lock not released');
    }
  }

  async reserve(sku: string, quantity: number, cartId: string): Promise<{ remaining: number }> {
    await this.lock(sku);
    try {
      const { rows } = await this.pool.query<{ available: number; channel_buffer: number }>(
        'SELECT available, channel_buffer FROM stock WHERE sku = $1',
        [sku],
      );
      const row = rows[0];
      if (!row) throw new OutOfStockError(sku, 0);

      const sellable = row.available - row.channel_buffer;
      if (sellable < quantity) throw new OutOfStockError(sku, sellable);

      const remaining = row.available - quantity;
      await this.pool.query(
        `WITH s AS (UPDATE stock SET available = $2, updated_at = now() WHERE sku = $1)
         INSERT INTO reservations (id, sku, cart_id, quantity, expires_at)
         VALUES ($3, $1, $4, $5, now() + interval '20 minutes')`,
        [sku, remaining, randomUUID(), cartId, quantity],
      );
      logger.info({ sku, cartId, quantity, remaining }, 'stock reserved');
      return { remaining };
    } finally {
      await this.unlock(sku);
    }
  }

  async setAvailable(sku: string, available: number): Promise<void> {
    await this.lock(sku);
    try {
      await this.pool.query('UPDATE stock SET available = $2, updated_at = now() WHERE sku = $1', [
        sku,
        available,
      ]);
    } finally {
      await this.unlock(sku);
    }
  }
}
