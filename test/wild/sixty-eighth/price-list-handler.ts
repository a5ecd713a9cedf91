import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import type { APIGatewayProxyEventV2, APIGatewayProxyStructuredResultV2 } from 'aws-lambda';

interface PriceList {
  /** From the catalogue's revision table; only ever goes up. */
  revision: number;
  currency: string;
  prices: Record<string, number>;
}

interface CachedPriceList extends PriceList {
  freshUntil: number;
}

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

const FRESH_MS = 60_000;
const KEEP_SECONDS = 24 * 60 * 60;
const REBUILD_LOCK_MS = 10_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

// A slow rebuild must not put an older list over a newer one.
const STORE_UNLESS_OLDER = `
local current = redis.call('GET', KEYS[1])
if current then
  local ok, decoded = pcall(cjson.decode, current)
  if ok and tonumber(decoded.revision) and tonumber(decoded.revision) > tonumber(ARGV[2]) then
    return 0
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
return 1`;

async function loadFromCatalogue(market: string): Promise<PriceList> {
  const res = await fetch(`${process.env.CATALOGUE_URL}/markets/${encodeURIComponent(market)}/prices`, {
    signal: AbortSignal.timeout(8_000),
  });
  if (!res.ok) {
    throw new Error(`catalogue answered ${res.status}`);
  }
  return (await res.json()) as PriceList;
}

async function store(key: string, list: PriceList): Promise<void> {
  const entry: CachedPriceList = { ...list, freshUntil: Date.now() + FRESH_MS };
  await redis.eval(STORE_UNLESS_OLDER, [key], [JSON.stringify(entry), String(list.revision), String(KEEP_SECONDS)]);
}

function reply(list: PriceList, state: string): APIGatewayProxyStructuredResultV2 {
  return {
    statusCode: 200,
    headers: { 'content-type': 'application/json', 'x-cache': state },
    body: JSON.stringify({ revision: list.revision, currency: list.currency, prices: list.prices }),
  };
}

/**
 * The lock only spares the catalogue a stampede when a list goes stale: those who do not get it
 * answer with the stale list. Two rebuilds side by side (lock run out, Redis failed over) cost a
 * query, nothing else, because the store keeps the higher revision.
 */
export async function handler(event: APIGatewayProxyEventV2): Promise<APIGatewayProxyStructuredResultV2> {
  const market = event.pathParameters?.market ?? 'de';
  const key = `prices:${market}`;
  const lockKey = `prices:${market}:rebuild`;
  const token = randomUUID();

  let cached: CachedPriceList | null = null;
  try {
    cached = await redis.get<CachedPriceList>(key);
  } catch (err) {
    console.error('price cache not readable', { market, err });
  }

  if (cached && cached.freshUntil > Date.now()) {
    return reply(cached, 'hit');
  }

  if (!cached) {
    // Cold: nothing to serve meanwhile, everyone asks the catalogue.
    const list = await loadFromCatalogue(market);
    await store(key, list).catch((err) => console.warn('price cache not written', { market, err }));
    return reply(list, 'miss');
  }

  const got = await redis.set(lockKey, token, { nx: true, px: REBUILD_LOCK_MS }).catch(() => null);
  if (got !== 'OK') {
    return reply(cached, 'stale');
  }

  try {
    const list = await loadFromCatalogue(market);
    await store(key, list);
    return reply(list, 'rebuilt');
  } catch (err) {
    console.error('rebuild failed, serving stale', { market, err });
    return reply(cached, 'stale');
  } finally {
    // awaited: Lambda freezes the process as soon as we have answered
    await redis.eval(RELEASE, [lockKey], [token]).catch((err) => {
      console.warn('rebuild lock not released', { market, err });
    });
  }
}
