import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'pg';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));
const db = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 2_000, query_timeout: 2_500 });

const LOCK_MS = 15_000;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

async function withDepartureLock<T>(departureId: string, fn: () => Promise<T>): Promise<T> {
  const key = `lock:departure:${departureId}`;
  const token = randomUUID();
  const deadline = Date.now() + 8_000;
  while ((await redis.set(key, token, { NX: true, PX: LOCK_MS })) === null) {
    if (Date.now() > deadline) throw new Error(`departure ${departureId} is busy`);
    await sleep(50 + Math.random() * 50);
  }
  try {
    return await fn();
  } finally {
    await redis.eval(RELEASE, { keys: [key], arguments: [token] }).catch((err) => console.warn('unlock', err));
  }
}

export class SoldOutError extends Error {}

async function reserveSeats(bookingId: string, departureId: string, passengers: number): Promise<void> {
  const { rows } = await db.query<{ seats_left: number }>(
    'SELECT seats_left FROM departures WHERE id = $1',
    [departureId],
  );
  const departure = rows[0];
  if (!departure || departure.seats_left < passengers) {
    throw new SoldOutError(`not enough seats on ${departureId}`);
  }

  await withDepartureLock(departureId, async () => {
    await db.query(
      `WITH booking AS (
         INSERT INTO bookings (id, departure_id, passengers, status) VALUES ($1, $2, $3, 'reserved')
       )
       UPDATE departures SET seats_left = $4 WHERE id = $2`,
      [bookingId, departureId, passengers, departure.seats_left - passengers],
    );
  });
}

async function charge(bookingId: string, cents: number): Promise<void> {
  const res = await fetch(`${process.env.PAYMENTS_URL}/charges`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': `booking-${bookingId}` },
    body: JSON.stringify({ reference: bookingId, cents }),
    signal: AbortSignal.timeout(15_000),
  });
  if (!res.ok) throw new Error(`payment failed: ${res.status}`);
}

// The saga worker retries these until they succeed and takes the departure lock itself.
// It also adds them for bookings that stay 'reserved' for more than 30 minutes.
async function enqueueCompensation(bookingId: string): Promise<void> {
  await db.query(
    `INSERT INTO saga_tasks (booking_id, task) VALUES ($1, 'void-charge'), ($1, 'return-seats')
     ON CONFLICT (booking_id, task) DO NOTHING`,
    [bookingId],
  );
}

export async function bookTrip(departureId: string, passengers: number, cents: number): Promise<string> {
  const bookingId = randomUUID();
  await reserveSeats(bookingId, departureId, passengers);
  try {
    await charge(bookingId, cents);
    await db.query(`UPDATE bookings SET status = 'confirmed' WHERE id = $1`, [bookingId]);
  } catch (err) {
    await enqueueCompensation(bookingId);
    throw err;
  }
  return bookingId;
}
