import { createClient } from 'redis';
import axios from 'axios';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('[redis]', err.message));
await client.connect();

const FRESH_SECONDS = 10 * 60;
const STALE_SECONDS = 6 * 60 * 60;
const FILL_LOCK_MS = 15_000;
const UPSTREAM_TIMEOUT_MS = 6_000;
const WAIT_MS = 7_000;

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

export class ForecastUnavailable extends Error {}

async function readJson(key) {
  const raw = await client.get(key);
  return raw === null ? null : JSON.parse(raw);
}

async function download(cell) {
  const { data } = await axios.get(`https://api.meteo.example/v3/grid/${encodeURIComponent(cell)}`, {
    timeout: UPSTREAM_TIMEOUT_MS,
    signal: AbortSignal.timeout(UPSTREAM_TIMEOUT_MS),
    headers: { 'x-api-key': process.env.METEO_KEY },
  });
  return { cell, issuedAt: data.issued_at, hours: data.hourly };
}

async function unlock(key, token) {
  try {
    await client.eval(UNLOCK, { keys: [key], arguments: [token] });
  } catch (err) {
    console.warn('[forecast] unlock failed', key, err.message);
  }
}

export async function getForecast(cell) {
  const freshKey = `forecast:fresh:${cell}`;
  const staleKey = `forecast:stale:${cell}`;
  const lockKey = `forecast:fill:${cell}`;
  const giveUpAt = Date.now() + WAIT_MS;

  for (;;) {
    const hit = await readJson(freshKey);
    if (hit) return hit;

    const token = randomUUID();
    const got = await client.set(lockKey, token, { NX: true, PX: FILL_LOCK_MS });

    if (got === 'OK') {
      try {
        const late = await readJson(freshKey);
        if (late) return late;

        const forecast = await download(cell);
        const json = JSON.stringify(forecast);
        await client
          .multi()
          .set(freshKey, json, { EX: FRESH_SECONDS })
          .set(staleKey, json, { EX: STALE_SECONDS })
          .exec();
        return forecast;
      } catch (err) {
        const old = await readJson(staleKey);
        if (old) return { ...old, stale: true };
        throw new ForecastUnavailable(`no forecast for ${cell}`, { cause: err });
      } finally {
        await unlock(lockKey, token);
      }
    }

    // somebody else is downloading, an old forecast is good enough meanwhile
    const old = await readJson(staleKey);
    if (old) return { ...old, stale: true };

    if (Date.now() >= giveUpAt) throw new ForecastUnavailable(`timed out waiting for ${cell}`);
    await sleep(100 + Math.random() * 150);
  }
}
