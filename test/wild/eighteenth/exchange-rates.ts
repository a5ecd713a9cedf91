import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

export type Rates = Record<string, number>;

const LOCK_MS = 10_000;
const FRESH_MS = 5 * 60_000;
const MAX_WAIT_MS = 25_000;

// Store the answer only while the lock is still ours, and give it back in the same step.
const FILL_AND_RELEASE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
redis.call('DEL', KEYS[1])
return 1`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

async function release(lockKey: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, [lockKey], [token]);
  } catch (err) {
    console.warn('release of %s failed, it expires by itself', lockKey, err);
  }
}

async function fetchRates(base: string, signal: AbortSignal): Promise<Rates> {
  const response = await fetch(`${process.env.RATES_URL}/latest/${encodeURIComponent(base)}`, { signal });
  if (!response.ok) throw new Error(`rates service answered ${response.status}`);
  return (await response.json()) as Rates;
}

/** Cached rates; of all the instances that miss the cache one asks the (metered) rates service. */
export async function getRates(base: string): Promise<Rates> {
  const cacheKey = `rates:${base}`;
  const lockKey = `rates-lock:${base}`;
  const giveUpAt = performance.now() + MAX_WAIT_MS;

  for (;;) {
    const cached = await redis.get<Rates>(cacheKey);
    if (cached !== null) return cached;

    const token = randomUUID();
    const sentAt = performance.now();
    let reply: unknown;
    try {
      reply = await redis.set(lockKey, token, { nx: true, px: LOCK_MS });
    } catch (err) {
      await release(lockKey, token);
      throw err;
    }

    if (reply === 'OK') {
      try {
        // Someone may have filled it between our GET and our SET.
        const filled = await redis.get<Rates>(cacheKey);
        if (filled !== null) return filled;

        const left = Math.floor(sentAt + LOCK_MS - 1_000 - performance.now());
        if (left > 0) {
          const rates = await fetchRates(base, AbortSignal.timeout(left));
          // If the lock has lapsed nothing is written; the rates are good for this caller anyway.
          await redis
            .eval(FILL_AND_RELEASE, [lockKey, cacheKey], [token, JSON.stringify(rates), String(FRESH_MS)])
            .catch((err: unknown) => console.warn('could not cache %s', cacheKey, err));
          return rates;
        }
      } finally {
        await release(lockKey, token);
      }
    }

    if (performance.now() > giveUpAt) throw new Error(`no rates for ${base} in time`);
    await sleep(150 + Math.random() * 250);
  }
}
