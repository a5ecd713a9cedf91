import { Redis } from 'ioredis';
import Redlock, { ResourceLockedError, ExecutionError } from 'redlock5';
import { addDays, differenceInCalendarDays, format, parseISO } from 'date-fns';
import type { Db } from './db';
import { logger } from './logger';

const MAX_NIGHTS = 30;
const HOLD_MS = 20_000;

const redis = new Redis(process.env.BOOKING_REDIS_URL ?? 'redis://localhost:6379', {
  commandTimeout: 500,
  maxRetriesPerRequest: 1,
});
redis.on('error', (err) => logger.warn({ err }, 'booking redis'));

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 3,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 6_000,
});
redlock.on('error', (err) => {
  if (err instanceof ResourceLockedError) return;
  logger.warn({ err }, 'redlock');
});

export interface BookingRequest {
  roomId: string;
  guestId: string;
  arrival: string; // yyyy-MM-dd
  departure: string; // yyyy-MM-dd
}

export type BookingResult =
  | { kind: 'booked'; bookingId: string }
  | { kind: 'occupied' }
  | { kind: 'busy' };

/** One key for each night of the stay; the tag keeps a room's keys in one slot. */
export function nightKeys(req: BookingRequest): string[] {
  const from = parseISO(req.arrival);
  const nights = differenceInCalendarDays(parseISO(req.departure), from);
  if (!(nights >= 1 && nights <= MAX_NIGHTS)) {
    throw new RangeError(`a stay has 1 to ${MAX_NIGHTS} nights`);
  }
  return Array.from({ length: nights }, (_, i) => `{room:${req.roomId}}:${format(addDays(from, i), 'yyyy-MM-dd')}`);
}

export async function allocateRoom(db: Db, req: BookingRequest): Promise<BookingResult> {
  const keys = nightKeys(req);
  let result: BookingResult | undefined;
  try {
    await redlock.using(keys, HOLD_MS, async (signal) => {
      const check = () => {
        if (signal.aborted) throw signal.error ?? new Error('room lock lost');
      };

      result = await db.transaction<BookingResult>(async (tx) => {
        await tx.query('SET LOCAL statement_timeout = 4000');
        const taken = await tx.query(
          `SELECT 1 FROM bookings
            WHERE room_id = $1 AND arrival < $3 AND departure > $2 AND cancelled_at IS NULL
            LIMIT 1`,
          [req.roomId, req.arrival, req.departure],
        );
        check();
        if (taken.rows.length > 0) return { kind: 'occupied' };

        const rate = await tx.query('SELECT cents FROM rates WHERE room_id = $1 AND day = $2', [
          req.roomId,
          req.arrival,
        ]);
        check();

        // The exclusion constraint bookings_no_overlap has the last word.
        const inserted = await tx.query(
          `INSERT INTO bookings (room_id, guest_id, arrival, departure, rate_cents)
           VALUES ($1, $2, $3, $4, $5) RETURNING id`,
          [req.roomId, req.guestId, req.arrival, req.departure, rate.rows[0].cents],
        );
        // Last look before the commit: an error here rolls the booking back.
        check();
        return { kind: 'booked', bookingId: String(inserted.rows[0].id) };
      });
    });
  } catch (err) {
    if (err instanceof ExecutionError || err instanceof ResourceLockedError) {
      if (result) {
        // Committed, and only the release failed: the keys expire.
        logger.warn({ roomId: req.roomId, err }, 'room keys not released');
        return result;
      }
      logger.info({ roomId: req.roomId, err }, 'room busy');
      return { kind: 'busy' };
    }
    throw err;
  }
  return result ?? { kind: 'busy' };
}
