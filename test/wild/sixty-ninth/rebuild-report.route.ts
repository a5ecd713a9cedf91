import { randomUUID } from 'node:crypto';
import { NextRequest, NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import { z } from 'zod';
import { queryWarehouse } from '@/lib/warehouse';

// The platform kills the function after this many seconds, well before the lock runs out.
export const maxDuration = 60;
export const dynamic = 'force-dynamic';

const LOCK_MS = 90_000;
const REPORT_TTL_S = 7 * 24 * 3600;

const redis = Redis.fromEnv();

const Params = z.object({
  workspaceId: z.string().regex(/^[a-z0-9-]{4,40}$/),
  month: z.string().regex(/^\d{4}-\d{2}$/),
});

interface StoredReport {
  buildId: string;
  month: string;
  builtAt: string;
  totals: { channel: string; orders: number; revenueCents: number }[];
}

const PUBLISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
redis.call('DEL', KEYS[1])
return 1
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

async function tryLock(key: string, token: string): Promise<boolean> {
  const res = await redis.set(key, token, { nx: true, px: LOCK_MS });
  if (res === 'OK') return true;
  // The HTTP client repeats a call whose answer got lost, the first may have set the key already.
  return (await redis.get<string>(key)) === token;
}

async function build(month: string, buildId: string): Promise<StoredReport> {
  const rows = await queryWarehouse<{ channel: string; orders: string; revenue: string }>(
    `SELECT channel, count(*) AS orders, sum(total_cents) AS revenue
       FROM fact_orders WHERE to_char(placed_at, 'YYYY-MM') = $1 GROUP BY channel ORDER BY channel`,
    [month],
    { timeoutMs: 45_000 },
  );
  return {
    buildId,
    month,
    builtAt: new Date().toISOString(),
    totals: rows.map((r) => ({ channel: r.channel, orders: Number(r.orders), revenueCents: Number(r.revenue) })),
  };
}

export async function POST(req: NextRequest) {
  const parsed = Params.safeParse(await req.json().catch(() => null));
  if (!parsed.success) {
    return NextResponse.json({ error: 'workspaceId and month are required' }, { status: 400 });
  }
  const { workspaceId, month } = parsed.data;
  const lockKey = `{report:${workspaceId}:${month}}:lock`;
  const dataKey = `{report:${workspaceId}:${month}}:data`;
  const token = randomUUID();

  try {
    if (!(await tryLock(lockKey, token))) {
      return NextResponse.json({ status: 'building' }, { status: 202, headers: { 'retry-after': '5' } });
    }

    const report = await build(month, token);
    const published = await redis.eval(PUBLISH, [lockKey, dataKey], [token, JSON.stringify(report), String(REPORT_TTL_S)]);
    if (published !== 1) {
      const current = await redis.get<StoredReport>(dataKey);
      if (current?.buildId !== token) {
        return NextResponse.json({ error: 'a newer rebuild took over' }, { status: 409 });
      }
    }
    return NextResponse.json(report, { status: 200 });
  } catch (err) {
    console.error('report rebuild failed', { workspaceId, month, err });
    return NextResponse.json({ error: 'rebuild failed' }, { status: 500 });
  } finally {
    await redis.eval(RELEASE, [lockKey], [token]).catch((err) => {
      console.warn('report lock left to expire', { lockKey, err });
    });
  }
}
