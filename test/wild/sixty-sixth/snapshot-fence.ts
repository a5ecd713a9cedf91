import { randomUUID } from 'node:crypto';
import type { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

/**
 * Builds the pricing snapshot the storefront reads. A build can hang for long in the
 * upstream catalogue, longer than the lock lives, so the snapshot is stored with a
 * fencing number: a builder which has been overtaken cannot store its old one.
 */
const LOCK_MS = 30_000;

const TAKE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const STORE = `
local newest = redis.call('HGET', KEYS[1], 'fence')
if newest and ARGV[1] < newest then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'body', ARGV[2], 'builtAt', ARGV[3])
return 1`;

export interface PriceRow {
  sku: string;
  cents: number;
  validFrom: string;
}

export interface Catalogue {
  pricesOf(market: string): Promise<PriceRow[]>;
}

export interface Log {
  info(msg: string, fields?: Record<string, unknown>): void;
  warn(msg: string, fields?: Record<string, unknown>): void;
}

export type BuildResult =
  | { state: 'stored'; fence: number; rows: number }
  | { state: 'busy' }
  | { state: 'overtaken'; fence: number };

export class SnapshotBuilder {
  constructor(
    private readonly redis: RedisClient,
    private readonly catalogue: Catalogue,
    private readonly log: Log,
  ) {}

  async build(market: string): Promise<BuildResult> {
    const keys = {
      lock: `snapshot:{${market}}:lock`,
      fence: `snapshot:{${market}}:fence`,
      data: `snapshot:{${market}}:data`,
    };
    const token = randomUUID();

    const fence = Number(
      await this.redis.eval(TAKE, { keys: [keys.lock, keys.fence], arguments: [token, String(LOCK_MS)] }),
    );
    if (fence === 0) {
      return { state: 'busy' };
    }

    try {
      const rows = await this.catalogue.pricesOf(market);
      const body = JSON.stringify(this.latestPerSku(rows));
      const stored = await this.redis.eval(STORE, {
        keys: [keys.data],
        arguments: [String(fence), body, new Date().toISOString()],
      });
      if (stored !== 1) {
        this.log.warn('snapshot overtaken by a newer build', { market, fence });
        return { state: 'overtaken', fence };
      }
      this.log.info('snapshot stored', { market, fence, rows: rows.length });
      return { state: 'stored', fence, rows: rows.length };
    } finally {
      await this.redis
        .eval(DROP, { keys: [keys.lock], arguments: [token] })
        .catch((err: unknown) => this.log.warn('snapshot lock not dropped', { market, err: String(err) }));
    }
  }

  async read(market: string): Promise<{ builtAt: string; prices: Record<string, number> } | null> {
    const hash = await this.redis.hGetAll(`snapshot:{${market}}:data`);
    if (!hash.body) return null;
    return { builtAt: hash.builtAt, prices: JSON.parse(hash.body) as Record<string, number> };
  }

  private latestPerSku(rows: PriceRow[]): Record<string, number> {
    const latest = new Map<string, PriceRow>();
    for (const row of rows) {
      const seen = latest.get(row.sku);
      if (!seen || row.validFrom > seen.validFrom) latest.set(row.sku, row);
    }
    return Object.fromEntries([...latest].map(([sku, row]) => [sku, row.cents]));
  }
}
