import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

export interface Db {
  query<T = Record<string, unknown>>(sql: string, params: unknown[]): Promise<{ rows: T[]; rowCount: number }>;
}

export interface ReservationRequest {
  roomId: string;
  guestId: string;
  from: string;
  to: string;
}

export class RoomBusyError extends Error {}
export class RoomTakenError extends Error {}

const LOCK_MS = 15_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Books a room for a guest. Other front desks that try the same room in the
 * meantime get a RoomBusyError and show "someone is booking this room".
 */
export async function reserveRoom(redis: Redis, db: Db, req: ReservationRequest): Promise<string> {
  const key = `hotel:room:${req.roomId}:booking`;
  const token = randomUUID();

  try {
    const reply = await redis.set(key, token, 'PX', LOCK_MS, 'NX');
    if (reply !== 'OK') throw new RoomBusyError(`room ${req.roomId} is being booked by someone else`);

    const calendar = await db.query<{ version: number }>(
      'SELECT version FROM room_calendars WHERE room_id = $1',
      [req.roomId],
    );
    if (calendar.rows.length === 0) throw new Error(`unknown room ${req.roomId}`);
    const { version } = calendar.rows[0]!;

    const overlap = await db.query(
      'SELECT 1 FROM reservations WHERE room_id = $1 AND arrives < $3 AND leaves > $2 LIMIT 1',
      [req.roomId, req.from, req.to],
    );
    if (overlap.rowCount > 0) throw new RoomTakenError(`room ${req.roomId} is taken in that period`);

    const id = randomUUID();
    // The calendar's version moves on with each reservation.
    const written = await db.query(
      `WITH bumped AS (
         UPDATE room_calendars SET version = version + 1
          WHERE room_id = $2 AND version = $6
         RETURNING room_id
       )
       INSERT INTO reservations (id, room_id, guest_id, arrives, leaves)
       SELECT $1, bumped.room_id, $3, $4, $5 FROM bumped`,
      [id, req.roomId, req.guestId, req.from, req.to, version],
    );
    if (written.rowCount !== 1) throw new RoomBusyError(`the calendar of room ${req.roomId} changed, try again`);
    return id;
  } finally {
    try {
      await redis.eval(RELEASE, 1, key, token);
    } catch (err) {
      console.warn('could not release %s, it expires by itself', key, err);
    }
  }
}
