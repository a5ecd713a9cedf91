import { Redlock, ExecutionError } from '@sesamecare-oss/redlock';
import Redis from 'ioredis';
import pino from 'pino';
import type { EntityManager } from 'typeorm';
import { dataSource } from '../db/client';

const log = pino({ name: 'booking' });

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost', { commandTimeout: 1_500 });
const redlock = new Redlock([redis], { retryCount: 12, retryDelay: 200, retryJitter: 80 });

const LOCK_MS = 20_000;

export interface BookingRequest {
  departureId: number;
  customerId: number;
  seats: number;
}

export class SoldOutError extends Error {}
export class BusyError extends Error {}

async function seatsLeft(em: EntityManager, departureId: number): Promise<number> {
  const [row] = await em.query(
    `SELECT d.capacity - COALESCE(SUM(b.seats), 0) AS left
       FROM departures d
       LEFT JOIN bookings b ON b.departure_id = d.id AND b.cancelled_at IS NULL
      WHERE d.id = $1
      GROUP BY d.capacity`,
    [departureId],
  );
  if (!row) throw new Error(`unknown departure ${departureId}`);
  return Number(row.left);
}

async function insertBooking(em: EntityManager, r: BookingRequest): Promise<number> {
  const [row] = await em.query(
    `INSERT INTO bookings (departure_id, customer_id, seats) VALUES ($1, $2, $3) RETURNING id`,
    [r.departureId, r.customerId, r.seats],
  );
  await em.query(
    `INSERT INTO outbox (topic, payload) VALUES ('booking.created', jsonb_build_object('id', $1::int))`,
    [row.id],
  );
  return row.id;
}

/**
 * Books seats on a departure. The bus has as many seats as it has; when the newsletter goes
 * out we see some fifty requests a second for the same one.
 */
export async function book(request: BookingRequest): Promise<{ bookingId: number }> {
  const { departureId, seats } = request;
  if (!Number.isInteger(seats) || seats < 1 || seats > 9) throw new RangeError('seats');

  return dataSource.transaction('READ COMMITTED', async (em) => {
    await em.query(`SET LOCAL statement_timeout = '3s'`);

    const lock = await redlock.acquire([`departure:${departureId}`], LOCK_MS).catch((err) => {
      if (err instanceof ExecutionError) throw new BusyError('please try again');
      throw err;
    });

    try {
      const left = await seatsLeft(em, departureId);
      if (left < seats) throw new SoldOutError(`${left} seats left`);
      const bookingId = await insertBooking(em, request);
      log.info({ bookingId, departureId, seats, left: left - seats }, 'booked');
      return { bookingId };
    } finally {
      await lock.release().catch((err) => log.warn({ err, departureId }, 'lock release'));
    }
  });
}
