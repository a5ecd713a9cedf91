/**
 * Firing slots of the kilns in a shared pottery studio.
 *
 * A kiln load has room for a certain volume. Booking reads what is booked so far and
 * adds to it, so bookings of the same kiln are serialised with a lease on Redis.
 */
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import pg from 'pg';

const LEASE_MS = 30_000;
const MAX_ANSWER_MS = 5_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
redis.on('error', (err) => console.warn('redis:', err.message));

const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 3_000,
});

/** Somebody else is booking the same kiln right now. */
export class KilnBusyError extends Error {
  override name = 'KilnBusyError';
}

/** The load has no room for the piece. */
export class KilnFullError extends Error {
  override name = 'KilnFullError';
}

export interface KilnLease extends AsyncDisposable {
  readonly key: string;
  readonly token: string;
}

/**
 * Takes the lease of a kiln; meant for `await using`.
 * @throws {KilnBusyError}
 */
export async function leaseKiln(kilnId: string): Promise<KilnLease> {
  const key = `studio:kiln:${kilnId}:lease`;
  const token = randomUUID();
  const askedAt = performance.now();
  const reply = await redis.set(key, token, 'PX', LEASE_MS, 'NX');
  if (reply !== 'OK') throw new KilnBusyError(`kiln ${kilnId} is being booked`);

  const lease: KilnLease = {
    key,
    token,
    async [Symbol.asyncDispose]() {
      try {
        await redis.eval(RELEASE, 1, key, token);
      } catch (err) {
        console.warn(`${key} left to expire`, err);
      }
    },
  };
  if (performance.now() - askedAt > MAX_ANSWER_MS) {
    await lease[Symbol.asyncDispose]();
    throw new KilnBusyError(`kiln ${kilnId}: redis was too slow`);
  }
  return lease;
}

export type BookingResult =
  | { status: 'booked'; litresLeft: number }
  | { status: 'try-again' };

/**
 * Books room for one piece in a load.
 *
 * @param litres volume of the piece including the distance to its neighbours
 * @throws {KilnFullError}
 */
export async function bookPiece(
  kilnId: string,
  loadId: string,
  memberId: string,
  litres: number,
): Promise<BookingResult> {
  try {
    await using lease = await leaseKiln(kilnId);
    console.debug(`booking kiln ${kilnId} with ${lease.token}`);
  } catch (err) {
    if (err instanceof KilnBusyError) return { status: 'try-again' };
    throw err;
  }

  const { rows } = await pool.query<{ capacity: number; booked: number }>(
    `SELECT l.capacity, coalesce(sum(p.litres), 0)::float AS booked
       FROM loads l LEFT JOIN pieces p ON p.load_id = l.id
      WHERE l.id = $1 AND l.kiln_id = $2
      GROUP BY l.id, l.capacity`,
    [loadId, kilnId],
  );
  if (rows.length === 0) throw new KilnFullError(`kiln ${kilnId} has no load ${loadId}`);

  const litresLeft = rows[0].capacity - rows[0].booked - litres;
  if (litresLeft < 0) throw new KilnFullError(`load ${loadId} lacks ${-litresLeft} litres`);

  await pool.query('INSERT INTO pieces (load_id, member_id, litres) VALUES ($1, $2, $3)', [
    loadId,
    memberId,
    litres,
  ]);
  return { status: 'booked', litresLeft };
}
