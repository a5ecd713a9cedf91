import { Hono } from 'hono';
import { serve } from '@hono/node-server';
import { createClient } from 'redis';
import axios from 'axios';
import { nanoid } from 'nanoid';

interface Rates {
  base: string;
  rates: Record<string, number>;
  fetchedAt: number;
}

const FRESH_MS = 60_000;
const KEEP_SECONDS = 3_600;
const LOCK_MS = 8_000;
const WAIT_MS = 2_500;

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => console.error('redis', err.message));

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

const isFresh = (r: Rates | null): boolean => r !== null && Date.now() - r.fetchedAt < FRESH_MS;

async function readCache(base: string): Promise<Rates | null> {
  const raw = await redis.get(`rates:${base}`);
  return raw ? (JSON.parse(raw) as Rates) : null;
}

async function load(base: string): Promise<Rates> {
  const fetchedAt = Date.now();
  const { data } = await axios.get('https://api.rates.example/latest', {
    params: { base },
    headers: { apikey: process.env.RATES_API_KEY },
    timeout: 5_000,
  });
  return { base, rates: data.rates, fetchedAt };
}

async function refresh(base: string): Promise<Rates> {
  const rates = await load(base);
  await redis.set(`rates:${base}`, JSON.stringify(rates), { EX: KEEP_SECONDS });
  return rates;
}

async function waitForOther(base: string): Promise<Rates | null> {
  const until = Date.now() + WAIT_MS;
  while (Date.now() < until) {
    await new Promise((r) => setTimeout(r, 100));
    const cached = await readCache(base);
    if (cached) return cached;
  }
  return null;
}

/**
 * Keeps a rush of requests from hitting the rates API all at once. The API bills per
 * call, a few too many do no harm; an answer that is late does.
 */
export async function getRates(base: string): Promise<Rates> {
  const cached = await readCache(base);
  if (cached && isFresh(cached)) return cached;

  const lockKey = `rates:${base}:loading`;
  const token = nanoid();
  const mine = (await redis.set(lockKey, token, { NX: true, PX: LOCK_MS })) === 'OK';

  if (!mine) {
    return cached ?? (await waitForOther(base)) ?? load(base);
  }
  try {
    const again = await readCache(base);
    return again && isFresh(again) ? again : await refresh(base);
  } catch (err) {
    if (cached) return cached;
    throw err;
  } finally {
    await redis.eval(UNLOCK, { keys: [lockKey], arguments: [token] }).catch(() => undefined);
  }
}

const app = new Hono();

app.get('/rates/:base', async (c) => {
  const base = c.req.param('base').toUpperCase();
  if (!/^[A-Z]{3}$/.test(base)) return c.json({ error: 'bad currency' }, 400);
  const result = redis.isReady ? await getRates(base).catch(() => load(base)) : await load(base);
  return c.json(result, 200, { 'cache-control': 'public, max-age=30' });
});

await redis.connect();
serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 8080) });
