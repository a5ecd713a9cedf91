import { hostname } from 'node:os';
import { Inject, Injectable, Logger } from '@nestjs/common';
import { Cron, CronExpression } from '@nestjs/schedule';
import axios from 'axios';
import type Redis from 'ioredis';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { REDIS } from '../redis/redis.module';
import { PriceHistory } from './price-history.entity';
import { SupplierProduct } from './supplier-product.entity';

const LOCK_KEY = 'lock:supplier-price-import';
const LOCK_TTL_MS = 15 * 60_000;

const feedSchema = z.array(
  z.object({ sku: z.string(), priceCents: z.number().int().nonnegative() }),
);

@Injectable()
export class SupplierPricesService {
  private readonly logger = new Logger(SupplierPricesService.name);

  constructor(
    @Inject(REDIS) private readonly redis: Redis,
    private readonly dataSource: DataSource,
  ) {}

  @Cron(CronExpression.EVERY_MINUTE)
  async importPrices(): Promise<void> {
    try {
      const acquired = await this.redis.set(LOCK_KEY, hostname(), 'PX', LOCK_TTL_MS, 'NX');
      if (acquired !== 'OK') {
        this.logger.debug('price import is running on another instance');
        return;
      }

      const startedAt = Date.now();
      const changed = await this.applyFeed();
      this.logger.log(`price import changed ${changed} products in ${Date.now() - startedAt}ms`);
    } catch (err) {
      this.logger.error('price import failed', (err as Error).stack);
    } finally {
      await this.redis.del(LOCK_KEY).catch((err) => {
        this.logger.warn(`could not release import lock: ${err.message}`);
      });
    }
  }

  private async applyFeed(): Promise<number> {
    const { data } = await axios.get(process.env.SUPPLIER_FEED_URL!, {
      timeout: 60_000,
      signal: AbortSignal.timeout(120_000),
    });
    const feed = feedSchema.parse(data);

    return this.dataSource.transaction(async (manager) => {
      await manager.query(`SET LOCAL transaction_timeout = '8min'`);
      let changed = 0;
      for (const row of feed) {
        const product = await manager.findOneBy(SupplierProduct, { sku: row.sku });
        if (!product || product.priceCents === row.priceCents) continue;

        await manager.insert(PriceHistory, {
          productId: product.id,
          fromCents: product.priceCents,
          toCents: row.priceCents,
        });
        await manager.update(SupplierProduct, { id: product.id }, { priceCents: row.priceCents });
        changed += 1;
      }
      return changed;
    });
  }
}
