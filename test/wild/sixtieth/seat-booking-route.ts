// app/api/seats/[seatId]/book/route.ts
import { NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import { nanoid } from 'nanoid';
import { db } from '@/lib/db';

const redis = Redis.fromEnv();

const LOCK_TTL_MS = 10_000;
const WORK_TIMEOUT_MS = 8_000;

async function acquireLock(key: string): Promise<string | null> {
  const token = nanoid();
  const result = await redis.set(key, token, { nx: true, px: LOCK_TTL_MS });
  return result === 'OK' ? token : null;
}

async function releaseLock(key: string, token: string): Promise<void> {
  // Only delete the lock if we still own it
  const current = await redis.get<string>(key);
  if (current === token) {
    await redis.del(key);
  }
}

export async function POST(
  req: Request,
  { params }: { params: Promise<{ seatId: string }> },
) {
  const { seatId } = await params;
  const { userId } = (await req.json()) as { userId?: string };
  if (!userId) {
    return NextResponse.json({ error: 'userId is required' }, { status: 400 });
  }

  const lockKey = `lock:seat:${seatId}`;
  const startedAt = Date.now();
  const token = await acquireLock(lockKey);
  if (!token) {
    return NextResponse.json({ error: 'Seat is being booked by someone else' }, { status: 409 });
  }

  try {
    const seat = await db.seat.findUnique({ where: { id: seatId } });
    if (!seat) {
      return NextResponse.json({ error: 'No such seat' }, { status: 404 });
    }
    if (seat.bookedBy) {
      return NextResponse.json({ error: 'Seat is taken' }, { status: 409 });
    }
    if (Date.now() - startedAt > WORK_TIMEOUT_MS) {
      return NextResponse.json({ error: 'Took too long, try again' }, { status: 503 });
    }

    const booked = await db.seat.update({
      where: { id: seatId },
      data: { bookedBy: userId, bookedAt: new Date() },
    });
    return NextResponse.json(booked, { status: 201 });
  } catch (err) {
    console.error('booking failed', err);
    return NextResponse.json({ error: 'Internal error' }, { status: 500 });
  } finally {
    await releaseLock(lockKey, token).catch((err) => {
      console.error('failed to release lock', err);
    });
  }
}
