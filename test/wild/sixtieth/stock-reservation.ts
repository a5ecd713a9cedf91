import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Hono } from 'hono';
import { Pool } from 'pg';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class LockBusyError extends Error {}

export class ResourceLock implements AsyncDisposable {
  private constructor(
    private readonly client: Client,
    private readonly key: string,
    private readonly token: string,
    /** Aborts a second before the key can expire. */
    readonly signal: AbortSignal,
  ) {}

  static async acquire(client: Client, resource: string, ttlMs = 15_000, waitMs = 4_000): Promise<ResourceLock> {
    const key = `lock:${resource}`;
    const token = randomUUID();
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const sentAt = performance.now();
      let reply: string | null;
      try {
        reply = await client.set(key, token, { NX: true, PX: ttlMs });
      } catch (err) {
        // the SET may have been applied although we saw an error
        await ResourceLock.drop(client, key, token);
        throw err;
      }
      if (reply === 'OK') {
        const left = Math.floor(sentAt + ttlMs - 1_000 - performance.now());
        if (left > 0) return new ResourceLock(client, key, token, AbortSignal.timeout(left));
        await ResourceLock.drop(client, key, token);
      }
      if (performance.now() >= giveUpAt) throw new LockBusyError(`${resource} is busy`);
      await sleep(40 + Math.random() * 80);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await ResourceLock.drop(this.client, this.key, this.token);
  }

  private static async drop(client: Client, key: string, token: string): Promise<void> {
    try {
      await client.eval(RELEASE, { keys: [key], arguments: [token] });
    } catch (err) {
      console.warn(`could not release ${key}, it will expire by itself`, err);
    }
  }
}

export function stockRoutes(client: Client, db: Pool) {
  const app = new Hono();
  app.post('/stock/:sku/reservations', async (c) => {
    const { qty, orderId } = await c.req.json<{ qty: number; orderId: string }>();
    if (!Number.isInteger(qty) || qty < 1) return c.json({ error: 'bad quantity' }, 400);
    const sku = c.req.param('sku');
    try {
      await using lock = await ResourceLock.acquire(client, `stock:${sku}`);
      lock.signal.throwIfAborted();
      // One statement, and (order_id, sku) is the primary key of reservations: even a late
      // writer can neither oversell nor take stock twice for an order.
      const res = await db.query(
        `with taken as (
           update stock set available = available - $3
            where sku = $2 and available >= $3 returning sku, available)
         insert into reservations (order_id, sku, qty)
         select $1, sku, $3 from taken returning order_id`,
        [orderId, sku, qty],
      );
      return res.rowCount ? c.json(res.rows[0], 201) : c.json({ error: 'not available' }, 409);
    } catch (err) {
      if (err instanceof LockBusyError) return c.json({ error: 'try again' }, 503);
      if ((err as { code?: string }).code === '23505') return c.json({ error: 'already reserved' }, 409);
      throw err;
    }
  });
  return app;
}
