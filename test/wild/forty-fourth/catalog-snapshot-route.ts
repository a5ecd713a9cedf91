import { NextResponse, type NextRequest } from 'next/server';
import { Redis } from '@upstash/redis';
import { z } from 'zod';
import { erp } from '@/lib/erp-client';

export const runtime = 'nodejs';
export const maxDuration = 30;

const redis = Redis.fromEnv();

const SNAPSHOT_TTL_S = 60 * 60;
const REBUILD_LOCK_S = 12;
const WAIT_FOR_OTHER_MS = 4_000;

const Query = z.object({ market: z.enum(['de', 'at', 'ch', 'nl']) });

interface Snapshot {
  revision: number;
  builtAt: string;
  products: Array<{ sku: string; name: string; priceCents: number; stock: number }>;
}

const snapshotKey = (market: string, revision: number) => `catalog:${market}:snapshot:${revision}`;

async function build(market: string, revision: number): Promise<Snapshot> {
  const rows = await erp.listProducts({ market, active: true });
  const snapshot: Snapshot = {
    revision,
    builtAt: new Date().toISOString(),
    products: rows.map((r) => ({
      sku: r.sku,
      name: r.title,
      priceCents: Math.round(r.grossPrice * 100),
      stock: Math.max(0, r.onHand - r.reserved),
    })),
  };
  // One key per revision: whoever builds revision 41 late can't touch 42.
  await redis.set(snapshotKey(market, revision), snapshot, { ex: SNAPSHOT_TTL_S });
  return snapshot;
}

async function waitForOther(market: string, revision: number): Promise<Snapshot | null> {
  const until = Date.now() + WAIT_FOR_OTHER_MS;
  while (Date.now() < until) {
    await new Promise((r) => setTimeout(r, 250));
    const ready = await redis.get<Snapshot>(snapshotKey(market, revision));
    if (ready) return ready;
  }
  return null;
}

/**
 * The ERP takes about two seconds per full listing and gets slow when forty
 * cold lambdas ask at once. The lock below is there to spare the ERP, nothing
 * more: two builds of the same revision give an equally good snapshot, so it is
 * left to run out by itself, and who has waited long enough builds anyway.
 */
async function getSnapshot(market: string): Promise<Snapshot> {
  const revision = await erp.currentRevision(market);
  const cached = await redis.get<Snapshot>(snapshotKey(market, revision));
  if (cached) return cached;

  const first = await redis.set(`catalog:${market}:building:${revision}`, 1, {
    nx: true,
    ex: REBUILD_LOCK_S,
  });
  if (first !== 'OK') {
    const other = await waitForOther(market, revision);
    if (other) return other;
  }
  return build(market, revision);
}

export async function GET(req: NextRequest) {
  const query = Query.safeParse(Object.fromEntries(req.nextUrl.searchParams));
  if (!query.success) {
    return NextResponse.json({ error: query.error.flatten() }, { status: 400 });
  }
  try {
    const snapshot = await getSnapshot(query.data.market);
    return NextResponse.json(snapshot, {
      headers: { etag: `"${query.data.market}-${snapshot.revision}"`, 'cache-control': 'public, max-age=30' },
    });
  } catch (err) {
    console.error('catalog snapshot failed', err);
    return NextResponse.json({ error: 'catalog unavailable' }, { status: 503, headers: { 'retry-after': '5' } });
  }
}
