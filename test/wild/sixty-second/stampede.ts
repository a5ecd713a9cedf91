// app/api/rankings/route.ts
import { Redis } from '@upstash/redis';
import { NextResponse } from 'next/server';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
  retry: false,
});

interface Entry<T> {
  value: T;
  freshUntil: number;
}

interface CacheOptions {
  /** How long a value counts as fresh. */
  freshMs: number;
  /** How long a stale value may be served while someone refreshes it. */
  staleMs?: number;
  /** Lease of the refresh lock; computing has to end before it. */
  lockMs?: number;
  /** How long callers wait when there is nothing to serve at all. */
  waitMs?: number;
}

export class CacheColdError extends Error {}

// Only the current owner of the lock may fill the cache; storing also gives up the lock.
const PUBLISH = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("SET", KEYS[2], ARGV[2], "PX", ARGV[3])
redis.call("DEL", KEYS[1])
return 1`;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0`;

/** Reads through the cache; on a miss one instance computes and the others wait or serve stale. */
export async function cached<T>(
  key: string,
  compute: (signal: AbortSignal) => Promise<T>,
  { freshMs, staleMs = freshMs * 5, lockMs = 15_000, waitMs = 6_000 }: CacheOptions,
): Promise<T> {
  const cacheKey = `cache:{${key}}`;
  const lockKey = `cache-lock:{${key}}`;
  const giveUpAt = Date.now() + waitMs;

  for (;;) {
    const entry = await redis.get<Entry<T>>(cacheKey);
    if (entry && entry.freshUntil > Date.now()) return entry.value;

    const token = crypto.randomUUID();
    const sentAt = performance.now();
    const got = await redis.set(lockKey, token, { nx: true, px: lockMs });

    if (got === 'OK') {
      let published = false;
      try {
        // Another instance may have filled the cache between our GET and SET.
        const again = await redis.get<Entry<T>>(cacheKey);
        if (again && again.freshUntil > Date.now()) return again.value;

        const budget = lockMs - (performance.now() - sentAt) - 2_000;
        const value = await compute(AbortSignal.timeout(Math.max(1, Math.floor(budget))));
        const fresh: Entry<T> = { value, freshUntil: Date.now() + freshMs };
        const stored = await redis.eval(
          PUBLISH,
          [lockKey, cacheKey],
          [token, JSON.stringify(fresh), String(freshMs + staleMs)],
        );
        published = stored === 1;
        return value;
      } finally {
        if (!published) await redis.eval(RELEASE, [lockKey], [token]).catch(() => {});
      }
    }

    if (entry) return entry.value;
    if (Date.now() >= giveUpAt) throw new CacheColdError(key);
    await new Promise((r) => setTimeout(r, 200 + Math.random() * 200));
  }
}

export async function GET(req: Request) {
  const league = new URL(req.url).searchParams.get('league') ?? 'eu';
  if (!/^[a-z]{2,4}$/.test(league)) return NextResponse.json({ error: 'bad league' }, { status: 400 });

  try {
    const rankings = await cached(
      `rankings:${league}`,
      async (signal) => {
        const res = await fetch(`${process.env.STATS_URL}/rankings/${league}`, { signal, cache: 'no-store' });
        if (!res.ok) throw new Error(`stats backend: ${res.status}`);
        return (await res.json()) as unknown[];
      },
      { freshMs: 60_000 },
    );
    return NextResponse.json(rankings);
  } catch (err) {
    if (err instanceof CacheColdError) {
      return NextResponse.json({ error: 'warming up' }, { status: 503, headers: { 'retry-after': '3' } });
    }
    console.error(err);
    return NextResponse.json({ error: 'internal' }, { status: 500 });
  }
}
