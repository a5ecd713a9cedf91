// TypeScript >= 5.2, redis >= 5
import { randomUUID } from 'node:crypto';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import postgres from 'postgres';
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => console.error('redis', err));
await redis.connect();

const sql = postgres(process.env.DATABASE_URL!);

const RELEASE = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0`;

class Lock implements AsyncDisposable {
  private constructor(
    private readonly key: string,
    private readonly token: string,
    /** fires while a fifth of the lease is still left */
    readonly signal: AbortSignal,
  ) {}

  static async tryAcquire(name: string, ttlMs: number): Promise<Lock | null> {
    const key = `lock:${name}`;
    const token = randomUUID();
    const askedAt = performance.now();
    const reply = await redis.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: ttlMs },
    });
    if (reply !== 'OK') return null;
    const left = Math.floor(askedAt + ttlMs * 0.8 - performance.now());
    return new Lock(key, token, AbortSignal.timeout(Math.max(0, left)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await redis.eval(RELEASE, { keys: [this.key], arguments: [this.token] });
    } catch (err) {
      console.warn(`${this.key}: release failed, it will expire`, err);
    }
  }
}

const app = new Hono();

app.post('/warehouses/:id/sync', async (c) => {
  const id = c.req.param('id');

  await using lock = await Lock.tryAcquire(`warehouse-sync:${id}`, 30_000);
  if (!lock) return c.json({ error: 'sync already running' }, 409);

  const res = await fetch(`${process.env.ERP_URL}/warehouses/${id}/stock`, { signal: lock.signal });
  if (!res.ok) return c.json({ error: `ERP answered ${res.status}` }, 502);
  const { revision, items } = (await res.json()) as { revision: number; items: unknown[] };
  lock.signal.throwIfAborted();

  // Should the lock have expired on us all the same, an older snapshot cannot replace a newer one.
  const updated = await sql`
    UPDATE warehouse_stock
       SET items = ${sql.json(items as never)}, revision = ${revision}
     WHERE warehouse_id = ${id} AND revision < ${revision}`;

  return c.json({ revision, changed: updated.count === 1 });
});

app.onError((err, c) => {
  console.error(err);
  return c.json({ error: 'sync failed' }, 500);
});

serve({ fetch: app.fetch, port: 8787 });
