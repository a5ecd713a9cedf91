import { randomUUID } from 'node:crypto';
import type Redis from 'ioredis';

export interface Database {
  query<R>(sql: string, params: unknown[]): Promise<{ rowCount: number; rows: R[] }>;
}

export class SkuBusyError extends Error {}
export class AllocationConflictError extends Error {}

// Takes the lock and draws the fencing number in one go. The counter never expires.
const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export class StockAllocationService {
  private readonly ttlMs = 8_000;

  constructor(
    private readonly redis: Redis,
    private readonly db: Database,
  ) {}

  /**
   * Allocates stock oldest lot first. The lock keeps the warehouses out of each other's
   * way; correctness in case of an expired lock comes from stock.fence (bigint, default 0).
   */
  async allocate(sku: string, wanted: number): Promise<number> {
    const key = `stock:{${sku}}:lock`;
    const token = randomUUID();
    const fence = await this.acquire(sku, key, token);
    try {
      // Stamp the row first: from here on nobody with a lower number can write it.
      const claimed = await this.db.query<{ available: number }>(
        'UPDATE stock SET fence = $2 WHERE sku = $1 AND fence < $2 RETURNING available',
        [sku, fence],
      );
      if (claimed.rowCount === 0) throw new AllocationConflictError(sku);

      const available = claimed.rows[0].available;
      const granted = Math.min(available, wanted);
      const written = await this.db.query(
        'UPDATE stock SET available = $3 WHERE sku = $1 AND fence = $2',
        [sku, fence, available - granted],
      );
      if (written.rowCount === 0) throw new AllocationConflictError(sku);
      return granted;
    } finally {
      await this.redis.eval(RELEASE, 1, key, token).catch(() => undefined);
    }
  }

  private async acquire(sku: string, key: string, token: string): Promise<number> {
    for (let attempt = 0; attempt < 20; attempt++) {
      const fence = Number(
        await this.redis.eval(ACQUIRE, 2, key, `stock:{${sku}}:fence`, token, this.ttlMs),
      );
      if (fence > 0) return fence;
      await new Promise((r) => setTimeout(r, 50 * Math.min(attempt + 1, 5) + Math.random() * 50));
    }
    throw new SkuBusyError(sku);
  }
}
