import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const FRESH_SECONDS = 10 * 60;
const REFRESH_LOCK_MS = 30_000;
const UPSTREAM_TIMEOUT_MS = 8_000;
const MAX_WAIT_MS = 12_000;

const unlockScript = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export interface Forecast {
  cell: string;
  issuedAt: string;
  hours: { at: string; tempC: number; rainMm: number }[];
}

export class ForecastUnavailable extends Error {}

async function fetchUpstream(cell: string): Promise<Forecast> {
  const res = await fetch(`${process.env.METEO_URL}/v2/cells/${cell}/hourly`, {
    headers: { 'x-api-key': process.env.METEO_KEY ?? '' },
    signal: AbortSignal.timeout(UPSTREAM_TIMEOUT_MS),
  });
  if (!res.ok) throw new ForecastUnavailable(`upstream answered ${res.status} for ${cell}`);
  return (await res.json()) as Forecast;
}

/**
 * Read-through cache. The provider bills per call, so while a cell is being refreshed
 * the other lambdas wait for the result instead of asking too.
 */
export async function getForecast(cell: string): Promise<Forecast> {
  const cacheKey = `forecast:${cell}`;
  const lockKey = `forecast:${cell}:refresh`;
  const giveUpAt = Date.now() + MAX_WAIT_MS;
  let pause = 80;

  while (Date.now() < giveUpAt) {
    const cached = await redis.get<Forecast>(cacheKey);
    if (cached) return cached;

    const token = crypto.randomUUID();
    const locked = await redis.set(lockKey, token, { nx: true, px: REFRESH_LOCK_MS });
    if (locked === 'OK') {
      try {
        // somebody may have finished between our read and our lock
        const again = await redis.get<Forecast>(cacheKey);
        if (again) return again;

        const forecast = await fetchUpstream(cell);
        await redis.set(cacheKey, forecast, { ex: FRESH_SECONDS });
        return forecast;
      } finally {
        try {
          await redis.eval(unlockScript, [lockKey], [token]);
        } catch (err) {
          console.warn('forecast: unlock failed', cell, err);
        }
      }
    }

    await new Promise((resolve) => setTimeout(resolve, pause + Math.random() * 50));
    pause = Math.min(pause * 2, 600);
  }

  throw new ForecastUnavailable(`no forecast for ${cell} within ${MAX_WAIT_MS} ms`);
}
