import Redis, { type Result } from 'ioredis';
import { v4 as uuid } from 'uuid';
import axios, { type AxiosInstance } from 'axios';
import type { Pool } from 'pg';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    leaseWithSequence(
      leaseKey: string,
      sequenceKey: string,
      owner: string,
      ttlMs: number,
    ): Result<number | null, Context>;
    dropLease(leaseKey: string, owner: string): Result<number, Context>;
  }
}

export function stockRedis(url: string): Redis {
  const redis = new Redis(url);
  redis.defineCommand('leaseWithSequence', {
    numberOfKeys: 2,
    lua: `
      if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
        return redis.call('INCR', KEYS[2])
      end
      return false`,
  });
  redis.defineCommand('dropLease', {
    numberOfKeys: 1,
    lua: `
      if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
      return 0`,
  });
  return redis;
}

export type SnapshotOutcome =
  | { kind: 'written'; sequence: number; lines: number }
  | { kind: 'skipped' }
  | { kind: 'superseded'; sequence: number };

export class StockSnapshotJob {
  private readonly wms: AxiosInstance;

  constructor(
    private readonly redis: Redis,
    private readonly db: Pool,
    wmsUrl: string,
    private readonly ttlMs = 30_000,
  ) {
    this.wms = axios.create({ baseURL: wmsUrl, timeout: 60_000 });
  }

  /** Replaces our copy of a warehouse's stock with what its WMS says at this moment. */
  async run(warehouse: string): Promise<SnapshotOutcome> {
    const leaseKey = `stock:{${warehouse}}:lease`;
    const owner = uuid();
    const sequence = await this.redis.leaseWithSequence(
      leaseKey,
      `stock:{${warehouse}}:seq`,
      owner,
      this.ttlMs,
    );
    if (sequence === null) return { kind: 'skipped' };

    try {
      const { data } = await this.wms.get<Array<{ sku: string; onHand: number }>>(
        `/warehouses/${warehouse}/stock`,
      );
      return await this.write(warehouse, sequence, data);
    } finally {
      await this.redis.dropLease(leaseKey, owner);
    }
  }

  private async write(
    warehouse: string,
    sequence: number,
    lines: Array<{ sku: string; onHand: number }>,
  ): Promise<SnapshotOutcome> {
    const client = await this.db.connect();
    try {
      await client.query('BEGIN');
      const head = await client.query(
        'UPDATE stock_heads SET sequence = $2, taken_at = now() WHERE warehouse = $1 AND sequence < $2',
        [warehouse, sequence],
      );
      if (head.rowCount !== 1) {
        await client.query('ROLLBACK');
        return { kind: 'superseded', sequence };
      }
      await client.query('DELETE FROM stock_lines WHERE warehouse = $1', [warehouse]);
      await client.query(
        `INSERT INTO stock_lines (warehouse, sku, on_hand)
         SELECT $1, x.sku, x."onHand" FROM jsonb_to_recordset($2::jsonb) AS x(sku text, "onHand" int)`,
        [warehouse, JSON.stringify(lines)],
      );
      await client.query('COMMIT');
      return { kind: 'written', sequence, lines: lines.length };
    } catch (err) {
      await client.query('ROLLBACK').catch(() => undefined);
      throw err;
    } finally {
      client.release();
    }
  }
}
