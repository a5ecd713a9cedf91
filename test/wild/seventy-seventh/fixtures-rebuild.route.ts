// app/api/competitions/[id]/fixtures/rebuild/route.ts
import { NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import { rebuildFixtures } from '@/lib/fixtures';
import { notifyClubs } from '@/lib/notifications';
import { requireAdmin } from '@/lib/auth';

export const runtime = 'nodejs';
export const maxDuration = 60;

// The platform kills us after 60 s, so a lock older than two minutes belongs to a dead run.
const STALE_AFTER_MS = 120_000;

const redis = Redis.fromEnv();

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

/** Lock values look like "<run id>|<time it goes stale>". */
function lockValue(runId: string): string {
  return `${runId}|${Date.now() + STALE_AFTER_MS}`;
}

async function takeLock(key: string, runId: string): Promise<string | null> {
  const mine = lockValue(runId);

  const fresh = await redis.setnx(key, mine);
  if (fresh === 1) return mine;

  const current = await redis.get<string>(key);
  if (current === null) {
    // released just now, one more go
    return (await redis.setnx(key, mine)) === 1 ? mine : null;
  }

  const staleAt = Number(current.split('|')[1]);
  if (Date.now() < staleAt) return null;

  console.warn(`[fixtures] taking over stale lock ${key} (${current})`);
  const takeover = lockValue(runId);
  await redis.set(key, takeover);
  return takeover;
}

export async function POST(request: Request, { params }: { params: Promise<{ id: string }> }) {
  await requireAdmin(request);
  const { id } = await params;
  const key = `fixtures:rebuild:${id}`;

  const held = await takeLock(key, crypto.randomUUID());
  if (!held) {
    return NextResponse.json({ error: 'A rebuild is already running' }, { status: 409 });
  }

  try {
    // deletes the open fixtures of the season and draws new ones
    const fixtures = await rebuildFixtures(id);
    await notifyClubs(id, fixtures);
    return NextResponse.json({ count: fixtures.length });
  } catch (error) {
    console.error(`[fixtures] rebuild of ${id} failed`, error);
    return NextResponse.json({ error: 'Rebuild failed' }, { status: 500 });
  } finally {
    await redis.eval(UNLOCK, [key], [held]).catch((error) => console.warn('[fixtures] unlock failed', error));
  }
}
