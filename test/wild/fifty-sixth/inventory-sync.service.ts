import { Inject, Injectable, Logger } from '@nestjs/common';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { Mutex } from 'redis-semaphore';
import { request } from 'undici';
import { z } from 'zod';

const LOCK_MS = 90_000;
const RUN_BUDGET_MS = 45_000;

const feedSchema = z.object({
  version: z.number().int().positive(),
  items: z.array(z.object({ sku: z.string(), onHand: z.number().int().nonnegative() })),
});

export type SyncOutcome = 'synced' | 'busy' | 'interrupted';

@Injectable()
export class InventorySyncService {
  private readonly logger = new Logger(InventorySyncService.name);

  constructor(
    @Inject('REDIS') private readonly redis: Redis,
    @Inject('PG') private readonly pool: Pool,
    @Inject('WMS_BASE_URL') private readonly wmsUrl: string,
  ) {}

  /** Called by the webhook of the warehouse system and by the quarter-hourly sweep. */
  async sync(warehouseId: string): Promise<SyncOutcome> {
    const lost = new AbortController();
    const mutex = new Mutex(this.redis, `inventory-sync:${warehouseId}`, {
      lockTimeout: LOCK_MS,
      refreshInterval: 20_000,
      acquireAttemptsLimit: 1,
      onLockLost: (err) => lost.abort(err),
    });

    if (!(await mutex.tryAcquire())) {
      this.logger.debug(`warehouse ${warehouseId} is being synced already`);
      return 'busy';
    }

    const signal = AbortSignal.any([lost.signal, AbortSignal.timeout(RUN_BUDGET_MS)]);
    try {
      await this.pull(warehouseId, signal);
      return 'synced';
    } catch (err) {
      if (signal.aborted) {
        this.logger.warn(`sync of ${warehouseId} interrupted: ${String(signal.reason)}`);
        return 'interrupted';
      }
      throw err;
    } finally {
      await mutex.release().catch((err) => this.logger.warn(`release ${warehouseId}: ${err}`));
    }
  }

  private async pull(warehouseId: string, signal: AbortSignal): Promise<void> {
    const res = await request(`${this.wmsUrl}/warehouses/${warehouseId}/stock`, { signal });
    if (res.statusCode !== 200) {
      await res.body.dump();
      throw new Error(`WMS answered ${res.statusCode}`);
    }
    const feed = feedSchema.parse(await res.body.json());

    let changed = 0;
    for (const item of feed.items) {
      signal.throwIfAborted();
      // a sweep that was interrupted leaves some SKUs behind; the next one catches up
      const { rowCount } = await this.pool.query(
        `UPDATE stock
            SET on_hand = $1, feed_version = $2, synced_at = now()
          WHERE warehouse_id = $3 AND sku = $4 AND feed_version < $2`,
        [item.onHand, feed.version, warehouseId, item.sku],
      );
      changed += rowCount ?? 0;
    }
    this.logger.log(`warehouse ${warehouseId}: ${changed}/${feed.items.length} SKUs at feed ${feed.version}`);
  }
}
