// app/api/inventory/[sku]/recount/route.ts
import { randomUUID } from 'node:crypto';
import { NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import { z } from 'zod';
import { prisma } from '@/lib/prisma';
import { getSession } from '@/lib/session';

export const runtime = 'nodejs';
// The platform kills us at 20s, the lock lives 30s.
export const maxDuration = 20;
const LOCK_TTL_MS = 30_000;

const redis = Redis.fromEnv();

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

const Params = z.object({ sku: z.string().regex(/^[A-Z0-9-]{4,32}$/) });
const WmsCount = z.object({ sku: z.string(), onHand: z.number().int().nonnegative() });

async function countAtWarehouse(sku: string): Promise<number> {
  const res = await fetch(`${process.env.WMS_URL}/count/${sku}`, {
    headers: { 'x-api-key': process.env.WMS_KEY! },
    signal: AbortSignal.timeout(10_000),
    cache: 'no-store',
  });
  if (!res.ok) throw new Error(`WMS answered ${res.status}`);
  return WmsCount.parse(await res.json()).onHand;
}

export async function POST(_req: Request, ctx: { params: Promise<{ sku: string }> }) {
  const session = await getSession();
  if (!session?.roles.includes('stock')) return NextResponse.json({ error: 'forbidden' }, { status: 403 });

  const parsed = Params.safeParse(await ctx.params);
  if (!parsed.success) return NextResponse.json({ error: 'bad sku' }, { status: 400 });
  const { sku } = parsed.data;

  const key = `recount:${sku}`;
  const token = randomUUID();
  const acquired = await redis.set(key, token, { nx: true, px: LOCK_TTL_MS });
  if (acquired !== 'OK') {
    return NextResponse.json({ error: 'recount already running' }, { status: 409, headers: { 'retry-after': '15' } });
  }

  try {
    const item = await prisma.stockItem.findUnique({ where: { sku } });
    if (!item) return NextResponse.json({ error: 'unknown sku' }, { status: 404 });

    const onHand = await countAtWarehouse(sku);

    // Sales also move onHand without this lock, hence the version: never overwrite what we did not read.
    const { count } = await prisma.stockItem.updateMany({
      where: { sku, version: item.version },
      data: { onHand, version: { increment: 1 }, recountedAt: new Date(), recountedBy: session.userId },
    });
    if (count === 0) {
      return NextResponse.json({ error: 'stock moved during the recount, try again' }, { status: 409 });
    }
    return NextResponse.json({ sku, before: item.onHand, after: onHand });
  } catch (err) {
    console.error('recount failed', { sku, err });
    return NextResponse.json({ error: 'recount failed' }, { status: 502 });
  } finally {
    try {
      await redis.eval(RELEASE, [key], [token]);
    } catch (err) {
      console.warn('could not release, will expire', { key, err });
    }
  }
}
