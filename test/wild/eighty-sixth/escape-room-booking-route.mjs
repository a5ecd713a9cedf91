import { Redis } from '@upstash/redis';
import { NextResponse } from 'next/server';
import pg from 'pg';
import { randomUUID } from 'node:crypto';

const redis = Redis.fromEnv();
const db = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  max: 3,
  connectionTimeoutMillis: 3_000,
  query_timeout: 4_000,
  statement_timeout: 3_500,
});

const LOCK_MS = 20_000;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export const runtime = 'nodejs';

export async function POST(req) {
  const { roomId, startsAt, minutes = 60, team } = await req.json();
  const from = new Date(startsAt);
  if (!roomId || Number.isNaN(from.getTime()) || !team?.email) {
    return NextResponse.json({ error: 'bad_request' }, { status: 400 });
  }
  const to = new Date(from.getTime() + minutes * 60_000);

  const key = `room:${roomId}:booking`;
  const token = `bk-${randomUUID()}`;
  const locked = await redis.set(key, token, { NX: true, PX: LOCK_MS });
  if (locked !== 'OK') {
    return NextResponse.json({ error: 'room_busy' }, { status: 423, headers: { 'retry-after': '1' } });
  }

  try {
    const clash = await db.query(
      'SELECT id FROM bookings WHERE room_id = $1 AND starts_at < $3 AND ends_at > $2 AND cancelled_at IS NULL LIMIT 1',
      [roomId, from, to]);
    if (clash.rowCount > 0) return NextResponse.json({ error: 'slot_taken' }, { status: 409 });

    const { rows } = await db.query(
      'INSERT INTO bookings (room_id, starts_at, ends_at, email, players) VALUES ($1, $2, $3, $4, $5) RETURNING id',
      [roomId, from, to, team.email, team.players ?? 2]);
    return NextResponse.json({ id: rows[0].id }, { status: 201 });
  } catch (err) {
    console.error('booking', roomId, err);
    return NextResponse.json({ error: 'internal' }, { status: 500 });
  } finally {
    await redis.eval(UNLOCK, [key], [token]).catch((err) => console.warn('unlock', key, err.message));
  }
}
