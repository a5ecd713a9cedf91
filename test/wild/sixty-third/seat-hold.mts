import { randomUUID } from 'node:crypto';
import type { RedisClientType } from 'redis';
import type { Pool } from './db.mjs';

const LOCK_TTL_MS = 15_000;
const WRITE_TIMEOUT_MS = 4_000;
const CLOCK_MARGIN_MS = 500;
const HOLD_MINUTES = 10;
const MAX_SEATS = 8;

const UNLOCK = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0
`;

export class SeatTakenError extends Error {
  readonly seatId: string;
  constructor(seatId: string) {
    super(`seat ${seatId} is not available`);
    this.name = 'SeatTakenError';
    this.seatId = seatId;
  }
}

interface SeatLock extends AsyncDisposable {
  remainingMs(): number;
}

async function lockSeat(
  redis: RedisClientType,
  eventId: string,
  seatId: string,
): Promise<SeatLock> {
  const key = `seat-lock:{${eventId}}:${seatId}`;
  const token = randomUUID();
  const startedAt = performance.now();

  const reply = await redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
  if (reply !== 'OK') throw new SeatTakenError(seatId);

  return {
    remainingMs: () => startedAt + LOCK_TTL_MS - CLOCK_MARGIN_MS - performance.now(),
    async [Symbol.asyncDispose]() {
      try {
        await redis.eval(UNLOCK, { keys: [key], arguments: [token] });
      } catch {
        // The key expires by itself shortly.
      }
    },
  };
}

export interface HoldRequest {
  eventId: string;
  seatIds: string[];
  customerId: string;
}

export interface Hold {
  id: string;
  expiresAt: Date;
}

/**
 * Puts a customer's seats on hold while they go through checkout. All of the
 * seats are held, or none.
 */
export async function holdSeats(
  redis: RedisClientType,
  pool: Pool,
  { eventId, seatIds, customerId }: HoldRequest,
): Promise<Hold> {
  const wanted = [...new Set(seatIds)].sort();
  if (wanted.length === 0 || wanted.length > MAX_SEATS) {
    throw new RangeError(`between 1 and ${MAX_SEATS} seats can be held`);
  }

  await using stack = new AsyncDisposableStack();
  const locks: SeatLock[] = [];
  for (const seatId of wanted) {
    locks.push(stack.use(await lockSeat(redis, eventId, seatId)));
  }

  const free = await pool.query<{ seat_id: string }>({
    text: `SELECT seat_id FROM seats s
            WHERE event_id = $1 AND seat_id = ANY($2) AND sold_at IS NULL
              AND NOT EXISTS (SELECT 1 FROM seat_holds h
                               WHERE h.event_id = s.event_id AND h.seat_id = s.seat_id
                                 AND h.expires_at > now())`,
    values: [eventId, wanted],
    timeoutMs: 3_000,
  });
  const freeIds = new Set(free.rows.map((row) => row.seat_id));
  const missing = wanted.find((seatId) => !freeIds.has(seatId));
  if (missing !== undefined) throw new SeatTakenError(missing);

  if (locks.some((lock) => lock.remainingMs() < WRITE_TIMEOUT_MS)) {
    throw new Error('took too long to check the seats, please try again');
  }

  const id = randomUUID();
  const expiresAt = new Date(Date.now() + HOLD_MINUTES * 60_000);
  // One statement, so that it is all or nothing.
  await pool.query({
    text: `INSERT INTO seat_holds (hold_id, event_id, seat_id, customer_id, expires_at)
           SELECT $1, $2, seat, $4, $5 FROM unnest($3::text[]) AS seat`,
    values: [id, eventId, wanted, customerId, expiresAt],
    timeoutMs: WRITE_TIMEOUT_MS,
  });

  return { id, expiresAt };
}
