import { Inject, Injectable, Logger } from '@nestjs/common';
import { Cron, CronExpression } from '@nestjs/schedule';
import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';
import { Pool } from 'pg';
import axios from 'axios';
import { z } from 'zod';

const LOCK = 'lock:stock-sync';

const feedSchema = z.array(z.object({ sku: z.string(), qty: z.number().int().nonnegative() }));
type Feed = z.infer<typeof feedSchema>;

@Injectable()
export class StockSyncService {
  private readonly logger = new Logger(StockSyncService.name);

  constructor(
    @Inject('REDIS') private readonly redis: RedisClientType,
    @Inject('PG') private readonly pool: Pool,
  ) {}

  @Cron(CronExpression.EVERY_5_MINUTES)
  async sync(): Promise<void> {
    const token = randomUUID();
    const ok = await this.redis.set(LOCK, token, { NX: true, PX: 120_000 });
    if (ok !== 'OK') return;

    try {
      const fence = await this.nextFence();
      const { data } = await axios.get(process.env.SUPPLIER_FEED_URL!, { timeout: 30_000 });
      const changed = await this.write(fence, feedSchema.parse(data));
      this.logger.log(`stock sync #${fence}: ${changed} rows changed`);
    } catch (err) {
      this.logger.error(`stock sync failed: ${(err as Error).message}`);
    } finally {
      await this.unlock(token);
    }
  }

  /** bigint comes back as a string from pg, we only compare for equality */
  private async nextFence(): Promise<string> {
    const { rows } = await this.pool.query(
      `update sync_fences set fence = fence + 1 where name = 'stock' returning fence`,
    );
    return rows[0].fence;
  }

  private async write(fence: string, feed: Feed): Promise<number> {
    const conn = await this.pool.connect();
    try {
      await conn.query('begin');
      const { rows } = await conn.query(`select fence from sync_fences where name = 'stock' for update`);
      if (rows[0].fence !== fence) throw new Error(`overtaken: I am ${fence}, now it is ${rows[0].fence}`);

      let changed = 0;
      for (const item of feed) {
        const res = await conn.query('update products set qty = $2 where sku = $1 and qty <> $2', [item.sku, item.qty]);
        changed += res.rowCount ?? 0;
      }
      await conn.query('commit');
      return changed;
    } catch (err) {
      await conn.query('rollback').catch(() => undefined);
      throw err;
    } finally {
      conn.release();
    }
  }

  private async unlock(token: string): Promise<void> {
    try {
      await this.redis.eval(
        `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
        { keys: [LOCK], arguments: [token] },
      );
    } catch (err) {
      this.logger.warn(`unlock failed: ${(err as Error).message}`);
    }
  }
}
