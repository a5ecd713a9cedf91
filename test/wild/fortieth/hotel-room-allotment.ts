/**
 * Allotment changes for a room type: reception desk, group sales and the
 * channel manager all end up here. The yield service is slow on Friday
 * afternoons (20s and more are not unheard of), see INC-2231.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';
import { request } from 'undici';

const log = pino({ name: 'allotment' });
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const pool = new Pool({ connectionString: process.env.DATABASE_URL });

const LOCK_MS = 30_000;
const WAIT_MS = 20_000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class AllotmentBusy extends Error {}
export class AllotmentSuperseded extends Error {}

async function withRoomTypeLock<T>(roomTypeId: string, fn: () => Promise<T>): Promise<T> {
  const key = `allotment:${roomTypeId}`;
  const token = randomUUID();
  const giveUp = Date.now() + WAIT_MS;

  while ((await redis.set(key, token, 'PX', LOCK_MS, 'NX')) !== 'OK') {
    if (Date.now() > giveUp) throw new AllotmentBusy(roomTypeId);
    await sleep(100 + Math.random() * 100);
  }
  try {
    return await fn();
  } finally {
    await redis.eval(UNLOCK, 1, key, token).catch((err) => log.warn({ err, key }, 'unlock failed'));
  }
}

async function overbookingFor(roomTypeId: string, remaining: number): Promise<number> {
  const res = await request(`${process.env.YIELD_URL}/room-types/${roomTypeId}/overbooking?left=${remaining}`);
  if (res.statusCode !== 200) {
    await res.body.dump();
    throw new Error(`yield service answered ${res.statusCode}`);
  }
  const body = (await res.body.json()) as { extra: number };
  return body.extra;
}

/** Takes `rooms` out of the allotment and returns what is left of it. */
export async function takeFromAllotment(roomTypeId: string, rooms: number): Promise<number> {
  return withRoomTypeLock(roomTypeId, async () => {
    const claimed = await pool.query<{ epoch: string; remaining: number }>(
      `UPDATE allotments
          SET epoch = epoch + 1
        WHERE room_type_id = $1
    RETURNING epoch, remaining`,
      [roomTypeId],
    );
    if (claimed.rowCount === 0) throw new Error(`no allotment for ${roomTypeId}`);
    const { epoch, remaining } = claimed.rows[0];

    const extra = await overbookingFor(roomTypeId, remaining);
    if (remaining + extra < rooms) throw new Error('not enough rooms');

    const left = remaining - rooms;
    const saved = await pool.query(
      `UPDATE allotments
          SET remaining = $3, changed_at = now()
        WHERE room_type_id = $1 AND epoch = $2`,
      [roomTypeId, epoch, left],
    );
    if (saved.rowCount !== 1) {
      log.warn({ roomTypeId, epoch }, 'allotment was taken over while we asked the yield service');
      throw new AllotmentSuperseded(roomTypeId);
    }
    return left;
  });
}
