import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const client = await createClient({ url: process.env.REDIS_URL })
  .on('error', (err) => console.error('[rates] redis', err.message))
  .connect();

const FRESH_SECONDS = 60;
const UPSTREAM_TIMEOUT = 4_000;
const REFILL_LOCK_MS = 20_000;
const WAIT_MS = 6_000;

const compareAndDelete =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

async function fetchRates(base) {
  const res = await fetch(`https://rates.internal/v2/latest?base=${encodeURIComponent(base)}`, {
    signal: AbortSignal.timeout(UPSTREAM_TIMEOUT),
  });
  if (!res.ok) throw new Error(`rates upstream answered ${res.status}`);
  return res.text();
}

async function refill(base, cacheKey) {
  const lockKey = `${cacheKey}:refill`;
  const me = randomUUID();
  const mine = await client.set(lockKey, me, { NX: true, PX: REFILL_LOCK_MS });
  if (mine === null) return null;

  try {
    const already = await client.get(cacheKey);
    if (already !== null) return already;
    const body = await fetchRates(base);
    await client.set(cacheKey, body, { EX: FRESH_SECONDS });
    return body;
  } finally {
    await client
      .eval(compareAndDelete, { keys: [lockKey], arguments: [me] })
      .catch((err) => console.warn('[rates] unlock', err.message));
  }
}

export async function getRates(base) {
  const cacheKey = `rates:${base}`;
  const giveUpAt = Date.now() + WAIT_MS;

  do {
    const cached = await client.get(cacheKey);
    if (cached !== null) return JSON.parse(cached);

    const filled = await refill(base, cacheKey);
    if (filled !== null) return JSON.parse(filled);

    await sleep(80 + Math.random() * 80);
  } while (Date.now() < giveUpAt);

  throw new Error(`rates for ${base} are not available yet`);
}
