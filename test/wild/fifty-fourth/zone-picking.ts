import Redis from 'ioredis';
import { Worker } from 'bullmq';
import { Pool, type PoolClient } from 'pg';
import { nanoid } from 'nanoid';
import { logger } from './logger';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    unlockZone(key: string, token: string): Promise<number>;
  }
}

const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });
redis.defineCommand('unlockZone', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`,
});

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 2_000,
  query_timeout: 2_500,
});

const ZONE_TTL_MS = 60_000;

class ZoneLocks {
  private readonly holds = new Map<string, { token: string; depth: number }>();

  /** May be nested: picking a line can trigger a replenishment of the same zone. */
  async run<T>(zone: string, fn: () => Promise<T>): Promise<T> {
    await this.enter(zone);
    try {
      return await fn();
    } finally {
      await this.exit(zone);
    }
  }

  private async enter(zone: string): Promise<void> {
    const hold = this.holds.get(zone);
    if (hold) {
      hold.depth += 1;
      return;
    }
    const token = nanoid();
    for (let left = 60; left > 0; left -= 1) {
      if ((await redis.set(`zone:${zone}`, token, 'PX', ZONE_TTL_MS, 'NX')) === 'OK') {
        this.holds.set(zone, { token, depth: 1 });
        return;
      }
      await new Promise((r) => setTimeout(r, 250));
    }
    throw new Error(`zone ${zone} stayed busy`);
  }

  private async exit(zone: string): Promise<void> {
    const hold = this.holds.get(zone);
    if (!hold) return;
    hold.depth -= 1;
    if (hold.depth > 0) return;
    this.holds.delete(zone);
    const removed = await redis.unlockZone(`zone:${zone}`, hold.token).catch(() => 0);
    if (removed === 0) logger.warn({ zone }, 'zone was not ours any more');
  }
}

const zones = new ZoneLocks();

async function inTransaction<T>(fn: (c: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let failed: Error | undefined;
  try {
    await client.query('begin');
    const value = await fn(client);
    await client.query('commit');
    return value;
  } catch (err) {
    failed = err as Error;
    throw err;
  } finally {
    client.release(failed);
  }
}

async function replenish(zone: string, sku: string): Promise<void> {
  await zones.run(zone, () =>
    inTransaction(async (c) => {
      const { rows } = await c.query('select quantity from reserve where zone = $1 and sku = $2', [zone, sku]);
      const moved = Math.min(rows[0]?.quantity ?? 0, 48);
      await c.query('update reserve set quantity = quantity - $3 where zone = $1 and sku = $2', [zone, sku, moved]);
      await c.query('update bins set quantity = quantity + $3 where zone = $1 and sku = $2', [zone, sku, moved]);
    }),
  );
}

async function pick(order: string, zone: string, sku: string, wanted: number): Promise<number> {
  return zones.run(zone, async () => {
    const before = await pool.query('select quantity from bins where zone = $1 and sku = $2', [zone, sku]);
    if ((before.rows[0]?.quantity ?? 0) < wanted) await replenish(zone, sku);

    return inTransaction(async (c) => {
      const { rows } = await c.query('select quantity from bins where zone = $1 and sku = $2', [zone, sku]);
      const stock: number = rows[0]?.quantity ?? 0;
      const taken = Math.min(stock, wanted);
      await c.query('update bins set quantity = $3 where zone = $1 and sku = $2', [zone, sku, stock - taken]);
      await c.query('insert into picks (order_id, zone, sku, quantity) values ($1, $2, $3, $4)', [order, zone, sku, taken]);
      return taken;
    });
  });
}

new Worker('pick-lines', (job) => pick(job.data.order, job.data.zone, job.data.sku, job.data.quantity), {
  connection: redis,
  concurrency: Number(process.env.PICK_CONCURRENCY ?? 8),
});
