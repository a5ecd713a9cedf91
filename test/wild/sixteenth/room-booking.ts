import Redlock, { type Lock } from 'redlock5';
import type { Redis } from 'ioredis';

/** Meeting room bookings. Times are free, to the minute; a booking may not overlap another. */
const LOCK_MS = 10_000;
const MARGIN_MS = 2_500;

export interface Booking {
  roomId: string;
  from: Date;
  to: Date;
  organiser: string;
}

export interface BookingStore {
  /** Bookings of the room that share at least a minute with the interval. */
  overlapping(roomId: string, from: Date, to: Date, opts: { signal: AbortSignal }): Promise<Booking[]>;
  /** Rejects, with nothing written, when the signal aborts. */
  insert(booking: Booking, opts: { signal: AbortSignal }): Promise<{ id: string }>;
}

export class RoomBusyError extends Error {}
export class RoomTakenError extends Error {
  constructor(readonly conflicts: Booking[]) {
    super('the room is taken at that time');
    this.name = 'RoomTakenError';
  }
}

export class RoomBookings {
  private readonly redlock: Redlock;

  constructor(
    nodes: Redis[],
    private readonly store: BookingStore,
  ) {
    this.redlock = new Redlock(nodes, {
      driftFactor: 0.01,
      retryCount: 5,
      retryDelay: 200,
      retryJitter: 100,
    });
    this.redlock.on('error', (err) => console.debug('redlock', err));
  }

  async book(booking: Booking): Promise<{ id: string }> {
    if (!(booking.from < booking.to)) throw new RangeError('a booking ends after it starts');

    const lock = await this.lockSlot(booking);
    try {
      const left = Math.floor(lock.expiration - Date.now() - MARGIN_MS);
      if (left <= 0) throw new RoomBusyError('the lock was granted too late');
      const signal = AbortSignal.timeout(left);

      const conflicts = await this.store.overlapping(
        booking.roomId,
        booking.from,
        booking.to,
        { signal },
      );
      if (conflicts.length > 0) throw new RoomTakenError(conflicts);

      signal.throwIfAborted();
      return await this.store.insert(booking, { signal });
    } finally {
      await lock.release().catch((err: unknown) => {
        console.warn('booking lock left to its TTL', err);
      });
    }
  }

  // Per room and start, so that bookings of other hours do not wait.
  private async lockSlot(booking: Booking): Promise<Lock> {
    const key = `lock:room:${booking.roomId}:${booking.from.toISOString()}`;
    try {
      return await this.redlock.acquire([key], LOCK_MS);
    } catch (err) {
      throw new RoomBusyError(`${booking.roomId} is being booked, try again`, { cause: err });
    }
  }
}
