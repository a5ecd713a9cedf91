// app/api/departures/[stop]/route.ts
import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { NextResponse } from 'next/server';

export const runtime = 'nodejs';
export const maxDuration = 20;

const redis = Redis.fromEnv();

// The city's SIRI endpoint allows 60 calls a minute for the whole app, so only
// one function instance per stop refreshes and the rest read what it wrote.
const FRESH_SECONDS = 20;
const STALE_SECONDS = 600;
const UPSTREAM_MS = 6_000;
const REFRESH_LOCK_MS = 25_000; // > maxDuration

const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

type Board = { stop: string; at: number; departures: { line: string; to: string; due: string }[] };

async function loadUpstream(stop: string): Promise<Board> {
  const res = await fetch(`${process.env.SIRI_URL}/stops/${encodeURIComponent(stop)}/departures`, {
    cache: 'no-store',
    signal: AbortSignal.timeout(UPSTREAM_MS),
  });
  if (!res.ok) throw new Error(`siri ${res.status}`);
  const departures = (await res.json()) as Board['departures'];
  return { stop, at: Date.now(), departures };
}

async function refresh(stop: string): Promise<Board | null> {
  const lockKey = `tram:${stop}:refreshing`;
  const token = randomUUID();
  const got = await redis.set(lockKey, token, { nx: true, px: REFRESH_LOCK_MS });
  if (got !== 'OK') return null;
  try {
    // might have been filled between our miss and the lock
    const already = await redis.get<Board>(`tram:${stop}:fresh`);
    if (already) return already;
    const board = await loadUpstream(stop);
    await redis
      .multi()
      .set(`tram:${stop}:fresh`, board, { ex: FRESH_SECONDS })
      .set(`tram:${stop}:stale`, board, { ex: STALE_SECONDS })
      .exec();
    return board;
  } finally {
    await redis.eval(UNLOCK, [lockKey], [token]).catch((e) => console.warn('unlock', stop, e));
  }
}

async function waitForOther(stop: string): Promise<Board | null> {
  for (let i = 0; i < 10; i++) {
    await new Promise((r) => setTimeout(r, 300));
    const board = await redis.get<Board>(`tram:${stop}:fresh`);
    if (board) return board;
  }
  return null;
}

export async function GET(_req: Request, { params }: { params: Promise<{ stop: string }> }) {
  const { stop } = await params;
  const fresh = await redis.get<Board>(`tram:${stop}:fresh`);
  if (fresh) return NextResponse.json(fresh);

  let board: Board | null = null;
  try {
    board = await refresh(stop);
  } catch (err) {
    console.error('refresh failed', stop, err);
  }
  board ??= await redis.get<Board>(`tram:${stop}:stale`);
  board ??= await waitForOther(stop);
  if (!board) return NextResponse.json({ error: 'try again' }, { status: 503, headers: { 'retry-after': '3' } });
  return NextResponse.json(board);
}
