import { Redis } from '@upstash/redis';
import { randomUUID } from 'node:crypto';

const redis = Redis.fromEnv();

const FRESH_MS = 60_000;
const KEEP_SECONDS = 3_600;
const LOCK_MS = 10_000;
const QUERY_TIMEOUT_MS = 6_000;

interface Trending {
  tags: Array<{ tag: string; posts: number }>;
  computedAt: number;
}

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function queryTrending(region: string): Promise<Trending> {
  const url = new URL('/trending', process.env.ANALYTICS_URL);
  url.searchParams.set('region', region);
  const res = await fetch(url, { signal: AbortSignal.timeout(QUERY_TIMEOUT_MS) });
  if (!res.ok) throw new Error(`analytics answered ${res.status}`);
  return { tags: (await res.json()) as Trending['tags'], computedAt: Date.now() };
}

const isFresh = (t: Trending) => Date.now() - t.computedAt < FRESH_MS;

async function getTrending(region: string): Promise<Trending> {
  const cacheKey = `trending:${region}`;
  const lockKey = `${cacheKey}:lock`;

  const cached = await redis.get<Trending>(cacheKey);
  if (cached && isFresh(cached)) return cached;

  const token = randomUUID();
  const locked = await redis.set(lockKey, token, { nx: true, px: LOCK_MS });

  if (locked === 'OK') {
    try {
      // somebody may have filled it between our read and our lock
      const filled = await redis.get<Trending>(cacheKey);
      if (filled && isFresh(filled)) return filled;

      const fresh = await queryTrending(region);
      await redis.set(cacheKey, fresh, { ex: KEEP_SECONDS });
      return fresh;
    } finally {
      await redis.eval<[string], number>(RELEASE, [lockKey], [token]).catch((err) => {
        console.warn('release failed', lockKey, err);
      });
    }
  }

  if (cached) return cached; // old, but somebody is on it

  for (let i = 0; i < 40; i++) {
    await sleep(150 + Math.random() * 50);
    const filled = await redis.get<Trending>(cacheKey);
    if (filled) return filled;
  }

  // waited long enough, answer this one request without the cache
  return queryTrending(region);
}

export async function GET(request: Request): Promise<Response> {
  const region = new URL(request.url).searchParams.get('region') ?? 'global';
  if (!/^[a-z]{2,10}$/.test(region)) {
    return Response.json({ error: 'unknown region' }, { status: 400 });
  }
  try {
    const trending = await getTrending(region);
    return Response.json(trending, { headers: { 'cache-control': 'public, max-age=15' } });
  } catch (err) {
    console.error('trending', err);
    return Response.json({ error: 'temporarily unavailable' }, { status: 503 });
  }
}
