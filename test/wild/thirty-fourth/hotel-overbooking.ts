import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');

const LOCK_TTL_MS = 15_000;
const WORK_BUDGET_MS = 9_000;
const WAIT_MS = 4_000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface BookingRequest {
  hotelId: string;
  roomTypeId: string;
  guestId: string;
  arrival: string;
  departure: string;
}

export interface Tx {
  capacity(roomTypeId: string, signal: AbortSignal): Promise<number>;
  peakOccupancy(roomTypeId: string, from: string, to: string, signal: AbortSignal): Promise<number>;
  insertBooking(request: BookingRequest, signal: AbortSignal): Promise<string>;
  insertOutboxEvent(type: string, payload: unknown): Promise<void>;
}

export interface Database {
  /** READ COMMITTED; commits when the callback resolves, rolls back when it rejects. */
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
}

export class RoomTypeBusyError extends Error {}
export class SoldOutError extends Error {}

async function withLock<T>(name: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const key = `lock:${name}`;
  const token = randomUUID();
  const giveUpAt = Date.now() + WAIT_MS;

  for (;;) {
    const signal = AbortSignal.timeout(WORK_BUDGET_MS);
    if ((await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX')) === 'OK') {
      try {
        return await fn(signal);
      } finally {
        await redis.eval(UNLOCK, 1, key, token).catch((err) => console.warn('unlock failed', key, err));
      }
    }
    if (Date.now() >= giveUpAt) throw new RoomTypeBusyError(name);
    await sleep(50 + Math.random() * 100);
  }
}

/**
 * Books one room of the given type. The lock is per room type, so that two
 * requests for overlapping nights are counted one after the other.
 */
export async function bookRoom(db: Database, request: BookingRequest): Promise<string> {
  return db.transaction(async (tx) => {
    const bookingId = await withLock(`rooms:${request.hotelId}:${request.roomTypeId}`, async (signal) => {
      const capacity = await tx.capacity(request.roomTypeId, signal);
      const taken = await tx.peakOccupancy(request.roomTypeId, request.arrival, request.departure, signal);
      if (taken >= capacity) {
        throw new SoldOutError(`${request.roomTypeId} ${request.arrival}..${request.departure}`);
      }
      return tx.insertBooking(request, signal);
    });

    await tx.insertOutboxEvent('booking.created', { bookingId, guestId: request.guestId });
    return bookingId;
  });
}
