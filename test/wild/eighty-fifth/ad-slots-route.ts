// app/api/episodes/[id]/ads/route.ts
import { Redis } from '@upstash/redis';
import { NextResponse } from 'next/server';
import { randomUUID } from 'node:crypto';

const redis = Redis.fromEnv();

type AdPlan = { episode: string; slots: { atSecond: number; creative: string }[] };
type Cached = { plan: AdPlan; freshUntil: number };

const FRESH_MS = 60_000;
const KEEP_S = 15 * 60;
const LOCK_MS = 8_000;
const FETCH_MS = 4_000;

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms));

async function askAdServer(id: string): Promise<AdPlan> {
  const res = await fetch(`${process.env.AD_SERVER}/plans/${encodeURIComponent(id)}`, {
    signal: AbortSignal.timeout(FETCH_MS),
    cache: 'no-store',
  });
  if (!res.ok) throw new Error(`ad server: ${res.status}`);
  return res.json();
}

async function refresh(id: string, key: string): Promise<AdPlan> {
  const askedAt = Date.now();
  const plan = await askAdServer(id);
  const entry: Cached = { plan, freshUntil: askedAt + FRESH_MS };
  await redis.set(key, entry, { ex: KEEP_S });
  return plan;
}

async function planFor(id: string): Promise<AdPlan> {
  const key = `ads:plan:${id}`;
  const lock = `ads:plan-lock:${id}`;

  const hit = await redis.get<Cached>(key);
  if (hit && hit.freshUntil > Date.now()) return hit.plan;

  const token = randomUUID();
  const won = await redis.set(lock, token, { nx: true, px: LOCK_MS });
  if (won === 'OK') {
    try {
      const newer = await redis.get<Cached>(key);
      if (newer && newer.freshUntil > Date.now()) return newer.plan;
      return await refresh(id, key);
    } catch (err) {
      if (hit) return hit.plan;
      throw err;
    } finally {
      await redis.eval(UNLOCK, [lock], [token]).catch((e) => console.warn('ad lock', e));
    }
  }

  // someone else is asking; an old plan will do, otherwise wait for theirs
  if (hit) return hit.plan;
  const until = Date.now() + FETCH_MS + 1_000;
  while (Date.now() < until) {
    await sleep(200);
    const theirs = await redis.get<Cached>(key);
    if (theirs) return theirs.plan;
  }
  throw new Error('no plan in time');
}

export async function GET(_req: Request, ctx: { params: Promise<{ id: string }> }) {
  const { id } = await ctx.params;
  try {
    return NextResponse.json(await planFor(id));
  } catch (err) {
    console.error('ads', id, err);
    return NextResponse.json({ episode: id, slots: [] }, { status: 200, headers: { 'x-ads': 'none' } });
  }
}
