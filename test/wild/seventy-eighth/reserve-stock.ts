import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;
type Item = { sku: string; qty: number };

// all keys or none
const LOCK_ALL = `
for i = 1, #KEYS do
  local owner = redis.call('GET', KEYS[i])
  if owner and owner ~= ARGV[1] then return 0 end
end
for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2]) end
return 1`;

const UNLOCK_ALL = `
local n = 0
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) == ARGV[1] then n = n + redis.call('DEL', KEYS[i]) end
end
return n`;

class MultiLock implements AsyncDisposable {
  private constructor(
    private readonly redis: RedisClient,
    private readonly keys: string[],
    private readonly token: string,
  ) {}

  static async acquire(redis: RedisClient, names: string[], leaseMs: number, waitMs: number) {
    // one hash tag, the script needs its keys on the same shard
    const keys = [...new Set(names)].map((n) => `{stock}:${n}`);
    const lock = new MultiLock(redis, keys, randomUUID());
    const until = Date.now() + waitMs;
    try {
      do {
        const ok = await redis.eval(LOCK_ALL, { keys, arguments: [lock.token, String(leaseMs)] });
        if (ok === 1) return lock;
        await sleep(30 + Math.random() * 70);
      } while (Date.now() < until);
    } catch (err) {
      await lock[Symbol.asyncDispose]();
      throw err;
    }
    return null;
  }

  async [Symbol.asyncDispose]() {
    try {
      await this.redis.eval(UNLOCK_ALL, { keys: this.keys, arguments: [this.token] });
    } catch {
      // lease runs out by itself
    }
  }
}

class OutOfStock extends Error {
  constructor(readonly sku: string) {
    super(`${sku} is out of stock`);
  }
}

/** qty never drops below zero and an order is booked once, from any caller */
async function book(pool: Pool, orderId: string, items: Item[]) {
  const db = await pool.connect();
  try {
    await db.query('begin');
    const first = await db.query(
      'insert into reservations (order_id) values ($1) on conflict do nothing returning order_id',
      [orderId],
    );
    if (first.rowCount === 1) {
      for (const { sku, qty } of items) {
        const upd = await db.query(
          'update stock set qty = qty - $2 where sku = $1 and qty >= $2',
          [sku, qty],
        );
        if (upd.rowCount === 0) throw new OutOfStock(sku);
      }
    }
    await db.query('commit');
  } catch (err) {
    await db.query('rollback').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

export default async function reserveStock(app: FastifyInstance, opts: { pool: Pool; redis: RedisClient }) {
  app.post<{ Body: { orderId: string; items: Item[] } }>('/reservations', async (req, reply) => {
    const totals = new Map<string, number>();
    for (const { sku, qty } of req.body.items) {
      if (!Number.isInteger(qty) || qty < 1) return reply.code(400).send({ error: 'bad qty' });
      totals.set(sku, (totals.get(sku) ?? 0) + qty);
    }
    const items = [...totals].map(([sku, qty]) => ({ sku, qty })).sort((a, b) => (a.sku < b.sku ? -1 : 1));

    // On drop days hundreds of orders pile up on the same rows and eat the whole
    // pg pool. Let them queue here instead.
    await using lock = await MultiLock.acquire(opts.redis, items.map((i) => i.sku), 10_000, 3_000);
    if (!lock) return reply.code(503).header('retry-after', '1').send({ error: 'busy' });

    try {
      await book(opts.pool, req.body.orderId, items);
    } catch (err) {
      if (err instanceof OutOfStock) return reply.code(409).send({ error: err.message });
      throw err;
    }
    return reply.code(201).send({ orderId: req.body.orderId });
  });
}
