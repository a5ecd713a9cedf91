// app/api/rates/[base]/route.ts
import { Redis } from '@upstash/redis';
import { NextResponse } from 'next/server';

const redis = Redis.fromEnv();
const FRESH_S = 300;
const KEEP_S = 86_400;

interface Rates {
  base: string;
  at: number;
  table: Record<string, number>;
}

const isFresh = (r: Rates | null): r is Rates => r !== null && Date.now() - r.at < FRESH_S * 1000;
const pause = (ms: number) => new Promise((r) => setTimeout(r, ms));

async function download(base: string): Promise<Rates> {
  const res = await fetch(`https://api.example-rates.com/v2/latest?base=${base}`, {
    headers: { authorization: `Bearer ${process.env.RATES_KEY}` },
    signal: AbortSignal.timeout(5_000),
    cache: 'no-store',
  });
  if (!res.ok) throw new Error(`rates upstream answered ${res.status}`);
  const body = (await res.json()) as { rates: Record<string, number> };
  return { base, at: Date.now(), table: body.rates };
}

async function refill(base: string, stale: Rates | null): Promise<Rates> {
  const dataKey = `rates:${base}`;
  const lockKey = `rates:${base}:refill`;
  const owner = `r-${crypto.randomUUID()}`;

  for (let i = 0; i < 20; i++) {
    if ((await redis.set(lockKey, owner, { nx: true, px: 25_000 })) === 'OK') {
      try {
        const again = await redis.get<Rates>(dataKey);
        if (isFresh(again)) return again;
        const next = await download(base);
        await redis.set(dataKey, next, { ex: KEEP_S });
        return next;
      } finally {
        await redis
          .eval(
            `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
            [lockKey],
            [owner],
          )
          .catch((e) => console.warn('refill lock will expire by itself', e));
      }
    }
    if (stale) return stale;
    await pause(300);
    const seen = await redis.get<Rates>(dataKey);
    if (isFresh(seen)) return seen;
  }
  throw new Error('rates not ready');
}

export async function GET(_req: Request, ctx: { params: Promise<{ base: string }> }) {
  const base = (await ctx.params).base.toUpperCase();
  if (!/^[A-Z]{3}$/.test(base)) return NextResponse.json({ error: 'bad currency' }, { status: 400 });
  try {
    const cached = await redis.get<Rates>(`rates:${base}`);
    return NextResponse.json(isFresh(cached) ? cached : await refill(base, cached));
  } catch (err) {
    console.error(err);
    return NextResponse.json({ error: 'unavailable' }, { status: 503 });
  }
}
