import { Redis } from '@upstash/redis';
import { Hono } from 'hono';
import { serve } from '@hono/node-server';
import { randomUUID } from 'node:crypto';

const redis = Redis.fromEnv();
const app = new Hono();

const LOCK_MS = 60_000;
const MAX_RUN_MS = 25_000;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

class TimeoutError extends Error {}

function withTimeout<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new TimeoutError(`no result after ${ms} ms`)), ms);
  });
  return Promise.race([work, timeout]).finally(() => clearTimeout(timer));
}

async function broker<T>(path: string, init?: RequestInit): Promise<T> {
  const res = await fetch(`${process.env.BROKER_URL}${path}`, {
    ...init,
    headers: { authorization: `Bearer ${process.env.BROKER_TOKEN}`, 'content-type': 'application/json' },
  });
  if (!res.ok) throw new Error(`${path}: ${res.status}`);
  return (await res.json()) as T;
}

interface Position {
  symbol: string;
  marketValue: number;
  targetValue: number;
}

/** Orders are filled at once, so the positions always show what has been done already. */
async function rebalance(portfolioId: string): Promise<number> {
  const positions = await broker<Position[]>(`/portfolios/${portfolioId}/positions`);
  let orders = 0;
  for (const p of positions) {
    const diff = p.targetValue - p.marketValue;
    if (Math.abs(diff) < 50) continue;
    await broker(`/portfolios/${portfolioId}/orders`, {
      method: 'POST',
      body: JSON.stringify({ symbol: p.symbol, side: diff > 0 ? 'buy' : 'sell', notional: Math.abs(diff) }),
    });
    orders++;
  }
  return orders;
}

// The scheduler repeats the call after 5 seconds unless it gets a 2xx answer.
app.post('/portfolios/:id/rebalance', async (c) => {
  const portfolioId = c.req.param('id');
  const key = `lock:rebalance:${portfolioId}`;
  const token = randomUUID();

  const locked = await redis.set(key, token, { nx: true, px: LOCK_MS });
  if (locked !== 'OK') return c.json({ error: 'rebalancing already' }, 409);

  try {
    const orders = await withTimeout(rebalance(portfolioId), MAX_RUN_MS);
    return c.json({ orders });
  } catch (err) {
    console.error('rebalance', portfolioId, err);
    return c.json({ error: err instanceof Error ? err.message : 'failed' }, err instanceof TimeoutError ? 504 : 502);
  } finally {
    await redis
      .eval<[string], number>(UNLOCK, [key], [token])
      .catch((err) => console.warn('unlock', key, err));
  }
});

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000) });
