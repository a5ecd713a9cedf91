import Redis from "ioredis";
import Redlock, { ExecutionError, type Lock } from "redlock5";

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 1_000, maxRetriesPerRequest: 1 });
redis.on("error", (err) => console.error("redis:", err.message));

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 5,
  retryDelay: 100,
  retryJitter: 100,
});
// a taken lock is reported here as well; acquire() tells the caller
redlock.on("error", (err) => console.debug("redlock:", err.message));

const HOLD_MS = 15_000;

export interface SeatStore {
  free(show: string, seats: string[], signal: AbortSignal): Promise<boolean>;
  hold(show: string, seats: string[], customer: string, signal: AbortSignal): Promise<string>;
}

interface HoldRequest {
  show: string;
  seats: string[];
  customer: string;
}

interface Reply {
  status: number;
  body: unknown;
}

/** POST /shows/:show/holds */
export function seatHoldHandler(store: SeatStore) {
  return async (req: HoldRequest): Promise<Reply> => {
    const seats = [...new Set(req.seats)].sort();
    if (seats.length === 0 || seats.length > 8) return { status: 400, body: { error: "1 to 8 seats" } };

    let lock: Lock;
    try {
      // all seats in one script: either every one of them is ours or none
      lock = await redlock.acquire(seats.map((s) => `{show:${req.show}}:seat:${s}`), HOLD_MS);
    } catch (err) {
      if (err instanceof ExecutionError) return { status: 423, body: { error: "seats are being booked, try again" } };
      throw err;
    }

    try {
      // no extension: the work has to be over within the lease
      const left = Math.floor(lock.expiration - Date.now());
      if (left <= 0) return { status: 503, body: { error: "try again" } };
      const signal = AbortSignal.timeout(left);

      if (!(await store.free(req.show, seats, signal))) return { status: 409, body: { error: "taken" } };
      // by the clock too: after a pause of the process the timer may not have run yet
      if (signal.aborted || Date.now() >= lock.expiration) return { status: 503, body: { error: "try again" } };
      const id = await store.hold(req.show, seats, req.customer, signal);
      return { status: 201, body: { id } };
    } finally {
      await lock.release().catch((err: Error) => console.warn("seat lock expires by itself:", err.message));
    }
  };
}
