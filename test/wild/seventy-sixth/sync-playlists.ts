// You're right to worry: with several instances (or an impatient user who clicks twice) two syncs
// could run for the same account. Here is the route with a distributed lock in Upstash Redis. It:
//
//  1. takes the lock atomically with SET NX EX,
//  2. answers 409 if a sync is already running,
//  3. always cleans up, even if the sync throws.

import { Redis } from '@upstash/redis';
import { NextResponse } from 'next/server';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

export const maxDuration = 60; // seconds, enforced by the platform
const LOCK_TTL_SECONDS = 90; // longer than maxDuration, so the lock outlives the function

interface Track {
  id: string;
  addedAt: string;
}

async function fetchLibrary(accountId: string): Promise<Track[]> {
  const res = await fetch(`${process.env.MUSIC_API}/accounts/${accountId}/library`, {
    headers: { authorization: `Bearer ${process.env.MUSIC_API_KEY}` },
  });
  if (!res.ok) throw new Error(`music api answered ${res.status}`);
  return res.json();
}

async function appendToPlaylist(accountId: string, track: Track): Promise<void> {
  const res = await fetch(`${process.env.MUSIC_API}/accounts/${accountId}/playlist`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${process.env.MUSIC_API_KEY}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ trackId: track.id }),
  });
  if (!res.ok) throw new Error(`could not add ${track.id}: ${res.status}`);
}

export async function POST(_req: Request, { params }: { params: { accountId: string } }) {
  const { accountId } = params;
  const lockKey = `lock:sync:${accountId}`;
  const cursorKey = `sync:cursor:${accountId}`;

  try {
    const acquired = await redis.set(lockKey, new Date().toISOString(), {
      nx: true,
      ex: LOCK_TTL_SECONDS,
    });

    if (acquired !== 'OK') {
      return NextResponse.json({ error: 'A sync is already running for this account' }, { status: 409 });
    }

    const cursor = (await redis.get<string>(cursorKey)) ?? '1970-01-01T00:00:00Z';
    const fresh = (await fetchLibrary(accountId))
      .filter((t) => t.addedAt > cursor)
      .sort((a, b) => a.addedAt.localeCompare(b.addedAt));

    for (const track of fresh) {
      await appendToPlaylist(accountId, track);
      await redis.set(cursorKey, track.addedAt);
    }

    return NextResponse.json({ added: fresh.length });
  } catch (err) {
    console.error('sync failed', accountId, err);
    return NextResponse.json({ error: 'Sync failed, please try again' }, { status: 500 });
  } finally {
    // Free the lock so the next sync can start right away
    await redis.del(lockKey);
  }
}
