// app/api/stalls/route.ts - flower market, traders pick up to 6 stalls for a market day
import { NextRequest, NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import { PrismaClient } from '@prisma/client';

const redis = Redis.fromEnv();
const prisma = new PrismaClient();

const LOCK_MS = 20000;
const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

type Body = { day: string; stalls: string[]; trader: string };

function parse(b: any): Body | null {
  if (!/^\d{4}-\d\d-\d\d$/.test(b?.day ?? '')) return null;
  if (!Array.isArray(b.stalls) || b.stalls.length < 1 || b.stalls.length > 6) return null;
  if (!b.stalls.every((s: any) => typeof s === 'string' && /^[A-H]\d{1,2}$/.test(s))) return null;
  if (typeof b.trader !== 'string' || !b.trader) return null;
  return { day: b.day, stalls: [...new Set<string>(b.stalls)].sort(), trader: b.trader };
}

export async function GET(req: NextRequest) {
  const day = req.nextUrl.searchParams.get('day') ?? '';
  const rows = await prisma.stallBooking.findMany({ where: { day, cancelled: false }, select: { stall: true } });
  return NextResponse.json({ taken: rows.map((r) => r.stall) });
}

export async function POST(req: NextRequest) {
  const b = parse(await req.json().catch(() => null));
  if (!b) return NextResponse.json({ error: 'bad request' }, { status: 400 });

  const key = `market:${b.day}:stalls:${b.stalls.join('+')}`;
  const tok = `t-${crypto.randomUUID()}`;
  const got = await redis.set(key, tok, { nx: true, px: LOCK_MS });
  if (got !== 'OK') {
    console.log('stalls locked', key);
    return NextResponse.json({ error: 'someone is booking these, try again' }, { status: 423 });
  }

  try {
    // cancelled bookings stay in the table, so no unique index on (day, stall)
    const out = await prisma.$transaction(
      async (tx) => {
        const taken = await tx.stallBooking.findMany({
          where: { day: b.day, stall: { in: b.stalls }, cancelled: false },
        });
        if (taken.length) return { taken: taken.map((t) => t.stall) };
        await tx.stallBooking.createMany({
          data: b.stalls.map((stall) => ({ day: b.day, stall, trader: b.trader, cancelled: false })),
        });
        return { taken: [] as string[] };
      },
      { maxWait: 3000, timeout: 8000 },
    );
    if (out.taken.length) {
      return NextResponse.json({ error: 'already booked', stalls: out.taken }, { status: 409 });
    }
    console.log('booked', b.day, b.stalls.join(' '), 'for', b.trader);
    return NextResponse.json({ ok: true, stalls: b.stalls }, { status: 201 });
  } catch (e) {
    console.error('stall booking', key, e);
    return NextResponse.json({ error: 'booking failed' }, { status: 500 });
  } finally {
    await redis.eval(UNLOCK, [key], [tok]).catch((e) => console.error('unlock', key, e));
  }
}
