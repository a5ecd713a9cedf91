import { Redis } from '@upstash/redis';

export const runtime = 'edge';

const redis = Redis.fromEnv();

const LOCK_TTL_MS = 30_000;
const FRESH_MS = 5 * 60_000;

// store the document only while the lock still carries our token
const STORE = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call("SET", KEYS[2], ARGV[2], "EX", 86400)
return 1
`;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

interface CachedFeed {
  fetchedAt: number;
  items: unknown[];
}

function reply(feed: CachedFeed, state: string) {
  return Response.json(feed.items, { headers: { 'x-feed': state, 'cache-control': 'public, max-age=30' } });
}

async function refresh(partner: string, lockKey: string, feedKey: string, token: string): Promise<CachedFeed> {
  const res = await fetch(`https://partners.example.net/${encodeURIComponent(partner)}/feed.json`, {
    signal: AbortSignal.timeout(8_000),
    cache: 'no-store',
  });
  if (!res.ok) throw new Error(`partner ${partner} answered ${res.status}`);
  const body = (await res.json()) as { items?: unknown[] };
  const feed: CachedFeed = { fetchedAt: Date.now(), items: body.items ?? [] };

  const stored = await redis.eval(STORE, [lockKey, feedKey], [token, JSON.stringify(feed)]);
  if (stored !== 1) console.warn(`feed ${partner}: lock no longer ours, result not stored`);
  return feed;
}

export async function GET(_req: Request, ctx: { params: Promise<{ partner: string }> }) {
  const { partner } = await ctx.params;
  const lockKey = `{feed:${partner}}:lock`;
  const feedKey = `{feed:${partner}}:doc`;

  const cached = await redis.get<CachedFeed>(feedKey);
  if (cached && Date.now() - cached.fetchedAt < FRESH_MS) return reply(cached, 'fresh');

  const token = crypto.randomUUID();
  const got = await redis.set(lockKey, token, { nx: true, px: LOCK_TTL_MS });
  if (got !== 'OK') {
    if (cached) return reply(cached, 'stale');
    return new Response('feed is being loaded', { status: 503, headers: { 'retry-after': '3' } });
  }

  try {
    return reply(await refresh(partner, lockKey, feedKey, token), 'updated');
  } catch (err) {
    console.error('feed refresh failed', partner, err);
    if (cached) return reply(cached, 'stale');
    return new Response('upstream unavailable', { status: 502 });
  } finally {
    await redis.eval(RELEASE, [lockKey], [token]).catch((err: unknown) => console.warn('feed unlock failed', err));
  }
}
