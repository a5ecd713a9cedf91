// app/api/seasons/[id]/close/route.ts
import { Redis } from '@upstash/redis';
import { and, eq } from 'drizzle-orm';
import { NextResponse, type NextRequest } from 'next/server';
import { nanoid } from 'nanoid';
import { z } from 'zod';
import { db } from '@/db';
import { seasons, seasonRewards } from '@/db/schema';
import { requireAdmin } from '@/lib/auth';
import { fetchFinalLadder } from '@/lib/ladder';

export const runtime = 'nodejs';
export const maxDuration = 25;

const redis = Redis.fromEnv();

// The function is killed by the platform after maxDuration; the lease outlives that.
const LOCK_TTL_MS = 45_000;
const LADDER_BUDGET_MS = 12_000;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

const Params = z.object({ id: z.string().uuid() });

const REWARDS = [
  { upTo: 1, gems: 5000 },
  { upTo: 10, gems: 1500 },
  { upTo: 100, gems: 400 },
];

const gemsFor = (rank: number) => REWARDS.find((r) => rank <= r.upTo)?.gems ?? 0;

export async function POST(req: NextRequest, ctx: { params: Promise<{ id: string }> }) {
  await requireAdmin(req);
  const parsed = Params.safeParse(await ctx.params);
  if (!parsed.success) return NextResponse.json({ error: 'bad season id' }, { status: 400 });
  const seasonId = parsed.data.id;

  const key = `season:${seasonId}:closing`;
  const token = `close_${nanoid()}`;

  const locked = await redis.set(key, token, { nx: true, px: LOCK_TTL_MS });
  if (locked !== 'OK') {
    return NextResponse.json({ error: 'season is being closed already' }, { status: 409 });
  }

  try {
    const ladder = await fetchFinalLadder(seasonId, { signal: AbortSignal.timeout(LADDER_BUDGET_MS) });

    const closed = await db.transaction(async (tx) => {
      // Only the transition open -> closed hands out rewards. Whoever comes second updates no row.
      const rows = await tx
        .update(seasons)
        .set({ status: 'closed', closedAt: new Date() })
        .where(and(eq(seasons.id, seasonId), eq(seasons.status, 'open')))
        .returning({ id: seasons.id });
      if (rows.length === 0) return false;

      const rewards = ladder
        .map((p, i) => ({ seasonId, playerId: p.playerId, rank: i + 1, gems: gemsFor(i + 1) }))
        .filter((r) => r.gems > 0);
      if (rewards.length > 0) {
        // unique (season_id, player_id)
        await tx.insert(seasonRewards).values(rewards).onConflictDoNothing();
      }
      return true;
    });

    if (!closed) return NextResponse.json({ error: 'season is not open' }, { status: 409 });
    return NextResponse.json({ seasonId, status: 'closed' });
  } catch (err) {
    console.error('[season-close]', seasonId, err);
    return NextResponse.json({ error: 'closing failed, try again' }, { status: 503 });
  } finally {
    await redis.eval(RELEASE, [key], [token]).catch((err) => {
      console.warn('[season-close] release failed', key, err);
    });
  }
}
