import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Seat holds for one show. Holds are written to the booking store; the lock
 * keeps two checkouts from holding the same seats.
 */
const LOCK_TTL_MS = 15_000;
const WORK_BUDGET_MS = 10_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface SeatStore {
  /** Rejects as soon as the signal aborts. */
  takenSeats(showId: string, seats: string[], opts: { signal: AbortSignal }): Promise<string[]>;
  /** One transaction; rolled back, and rejected, when the signal aborts. */
  holdSeats(
    showId: string,
    seats: string[],
    customerId: string,
    opts: { signal: AbortSignal },
  ): Promise<{ holdId: string }>;
}

export class ShowBusyError extends Error {
  constructor(readonly showId: string) {
    super(`show ${showId} is being booked by someone else, try again`);
    this.name = 'ShowBusyError';
  }
}

async function release(redis: Redis, key: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, 1, key, token);
  } catch (err) {
    // The key still has its TTL, so the worst case is a short wait for others.
    console.warn('seat lock not released', key, err);
  }
}

async function withShowLock<T>(
  redis: Redis,
  showId: string,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const key = `lock:show:${showId}`;
  const token = randomUUID();
  const startedAt = Date.now();

  let reply: 'OK' | null;
  try {
    reply = await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
  } catch (err) {
    // The reply may have been lost after the key was written.
    await release(redis, key, token);
    throw err;
  }
  if (reply !== 'OK') throw new ShowBusyError(showId);

  try {
    const left = startedAt + WORK_BUDGET_MS - Date.now();
    if (left <= 0) throw new ShowBusyError(showId);
    return await fn(AbortSignal.timeout(left));
  } finally {
    await release(redis, key, token);
  }
}

export type HoldResult =
  | { held: true; holdId: string }
  | { held: false; taken: string[] };

export async function holdSeats(
  redis: Redis,
  store: SeatStore,
  showId: string,
  seats: string[],
  customerId: string,
): Promise<HoldResult> {
  return withShowLock(redis, showId, async (signal): Promise<HoldResult> => {
    const taken = await store.takenSeats(showId, seats, { signal });
    if (taken.length > 0) return { held: false, taken };

    signal.throwIfAborted();
    const { holdId } = await store.holdSeats(showId, seats, customerId, { signal });
    return { held: true, holdId };
  });
}
