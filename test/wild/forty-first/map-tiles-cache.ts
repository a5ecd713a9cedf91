import { Hono } from 'hono';
import { serve } from '@hono/node-server';
import { createClient } from 'redis';
import { nanoid } from 'nanoid';
import { z } from 'zod';
import { setTimeout as sleep } from 'node:timers/promises';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (e) => console.error('redis', e));
await redis.connect();

const DAY = 24 * 60 * 60;
const FETCH_MS = 10_000;
const LOCK_MS = 25_000;
const WAIT_MS = 12_000;

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

const params = z.object({
  z: z.coerce.number().int().min(0).max(19),
  x: z.coerce.number().int().min(0),
  y: z.coerce.number().int().min(0),
});

async function cached(key: string): Promise<Buffer | null> {
  const hit = await redis.get(key);
  return hit === null ? null : Buffer.from(hit, 'base64');
}

// The tile provider bills per request, so only one of us may ask for a given tile.
async function getTile(z: number, x: number, y: number): Promise<Buffer | null> {
  const key = `tile:{${z}/${x}/${y}}`;
  const lockKey = `${key}:lock`;
  const token = nanoid();
  const giveUpAt = Date.now() + WAIT_MS;

  for (;;) {
    const hit = await cached(key);
    if (hit) return hit;

    const ok = await redis.set(lockKey, token, { NX: true, PX: LOCK_MS });
    if (ok === 'OK') {
      try {
        // could have landed between the get above and the lock
        const late = await cached(key);
        if (late) return late;

        const res = await fetch(`${process.env.TILE_URL}/${z}/${x}/${y}.png`, {
          signal: AbortSignal.timeout(FETCH_MS),
        });
        if (!res.ok) throw new Error(`tile provider said ${res.status}`);
        const body = Buffer.from(await res.arrayBuffer());
        await redis.set(key, body.toString('base64'), { EX: DAY });
        return body;
      } finally {
        await redis
          .eval(UNLOCK, { keys: [lockKey], arguments: [token] })
          .catch((e) => console.warn('unlock', lockKey, e));
      }
    }

    if (Date.now() > giveUpAt) return null;
    await sleep(150);
  }
}

const app = new Hono();

app.get('/tiles/:z/:x/:y', async (c) => {
  const p = params.safeParse(c.req.param());
  if (!p.success) return c.text('bad tile', 400);

  const tile = await getTile(p.data.z, p.data.x, p.data.y);
  if (!tile) return c.text('try again', 503, { 'Retry-After': '2' });
  return c.body(new Uint8Array(tile), 200, { 'Content-Type': 'image/png', 'Cache-Control': `public, max-age=${DAY}` });
});

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000) });
