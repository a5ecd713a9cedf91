import { randomBytes } from 'node:crypto';
import { Redis } from '@upstash/redis';

// HTTP based client, so this also runs in edge functions
const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL ?? 'http://localhost:8079',
  token: process.env.UPSTASH_REDIS_REST_TOKEN ?? 'local',
});

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

export class ReportLockedError extends Error {
  constructor(key: string) {
    super(`report ${key} is already being generated`);
    this.name = 'ReportLockedError';
  }
}

async function unlock(key: string, token: string): Promise<void> {
  await redis.eval<[string], number>(UNLOCK, [key], [token]);
}

/**
 * Runs `fn` while we hold `key`. There is no renewal on purpose: a report has
 * one time budget, and `signal` fires a little before the key runs out in Redis.
 * `fn` must hand the signal to everything that writes (fetch, storage, ...).
 *
 * Never waits: if someone else generates the report we tell the caller so.
 */
export async function using<T>(key: string, ttl: number, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const lockKey = `report-lock:${key}`;
  // letter prefix: the token must never look like a JSON number to the client
  const token = `r${randomBytes(20).toString('hex')}`;
  const safety = Math.max(50, Math.ceil(ttl * 0.05));

  // Measured before the request. HTTP round trips, including the client's own
  // retries, count against our budget.
  const start = performance.now();
  let granted = false;
  try {
    granted = (await redis.set(lockKey, token, { nx: true, px: ttl })) === 'OK';
  } finally {
    // A retried request can answer null (or fail) although its first copy was
    // stored. Removing only our own token is harmless in every other case.
    if (!granted) await unlock(lockKey, token).catch(() => undefined);
  }
  if (!granted) throw new ReportLockedError(key);

  const budget = ttl - safety - (performance.now() - start);
  if (budget <= 0) {
    await unlock(lockKey, token).catch(() => undefined);
    throw new ReportLockedError(key);
  }

  const controller = new AbortController();
  const timer = setTimeout(
    () => controller.abort(new Error(`time budget of report ${key} is used up`)),
    budget,
  );
  try {
    const value = await fn(controller.signal);
    // a result that was finished too late must not be published
    controller.signal.throwIfAborted();
    return value;
  } finally {
    clearTimeout(timer);
    await unlock(lockKey, token).catch((err) => {
      console.warn(`could not unlock ${lockKey}, it will expire by itself`, err);
    });
  }
}

export async function publishMonthlyReport(tenant: string, month: string, endpoint: string): Promise<number> {
  return using(`${tenant}:${month}`, 60_000, async (signal) => {
    const res = await fetch(`${endpoint}/reports`, {
      method: 'PUT',
      body: JSON.stringify({ tenant, month }),
      headers: { 'content-type': 'application/json' },
      signal,
    });
    return res.status;
  });
}
