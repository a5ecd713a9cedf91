import { Hono } from 'hono';
import { Redis } from '@upstash/redis';
import { nanoid } from 'nanoid';
import { z } from 'zod';

type Env = {
  Bindings: {
    UPSTASH_REDIS_REST_URL: string;
    UPSTASH_REDIS_REST_TOKEN: string;
    RATES_URL: string;
    RATES_KEY: string;
    CRON_SECRET: string;
  };
};

const LOCK = 'rates:refresh:lock';
const SNAPSHOT = 'rates:snapshot';
const LOCK_SECONDS = 60;
const PROVIDER_TIMEOUT_MS = 8_000;

const PUBLISH = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("SET", KEYS[2], ARGV[2])
return 1`;

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0`;

const ratesSchema = z.object({
  base: z.literal('EUR'),
  timestamp: z.number().int(),
  rates: z.record(z.string().length(3), z.number().positive()),
});

export const app = new Hono<Env>();

// Triggered by the platform's cron every 10 minutes, plus by hand from the treasury dashboard.
// The provider bills per request and gives us one concurrent connection.
app.post('/internal/rates/refresh', async (c) => {
  if (c.req.header('authorization') !== `Bearer ${c.env.CRON_SECRET}`) {
    return c.json({ error: 'unauthorized' }, 401);
  }

  const redis = new Redis({
    url: c.env.UPSTASH_REDIS_REST_URL,
    token: c.env.UPSTASH_REDIS_REST_TOKEN,
    retry: false,
  });

  const token = nanoid();
  const askedAt = Date.now();
  const got = await redis.set(LOCK, token, { nx: true, ex: LOCK_SECONDS });
  if (got !== 'OK') return c.json({ status: 'already running' }, 202);

  try {
    if (Date.now() - askedAt > 30_000) return c.json({ error: 'redis too slow' }, 503);

    const res = await fetch(c.env.RATES_URL, {
      headers: { 'x-api-key': c.env.RATES_KEY },
      signal: AbortSignal.timeout(PROVIDER_TIMEOUT_MS),
    });
    if (!res.ok) {
      console.warn('rates provider answered', res.status);
      return c.json({ error: 'provider failed', status: res.status }, 502);
    }
    const snapshot = ratesSchema.parse(await res.json());

    const published = await redis.eval<string[], number>(
      PUBLISH,
      [LOCK, SNAPSHOT],
      [token, JSON.stringify(snapshot)],
    );
    if (published !== 1) return c.json({ error: 'superseded' }, 409);

    return c.json({ status: 'ok', at: snapshot.timestamp, pairs: Object.keys(snapshot.rates).length });
  } catch (err) {
    console.error('rates refresh failed', err);
    return c.json({ error: 'refresh failed' }, 502);
  } finally {
    try {
      await redis.eval(UNLOCK, [LOCK], [token]);
    } catch (err) {
      console.warn('rates lock left to expire', err);
    }
  }
});

export default app;
