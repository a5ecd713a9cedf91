import { randomBytes } from "node:crypto";
import Redis from "ioredis";

const redis = new Redis({
  host: process.env.TICKETS_REDIS_HOST ?? "localhost",
  port: Number(process.env.TICKETS_REDIS_PORT ?? 6379),
  keyPrefix: "tickets:",
});

const TTL_MS = 8_000;

export class ShowBusyError extends Error {
  readonly status = 423;
}

export interface SeatTable {
  taken(showId: string): Promise<string[]>;
  insertHolds(showId: string, seats: string[], cartId: string, until: Date): Promise<void>;
}

interface HoldRequest {
  showId: string;
  cartId: string;
  seats: string[];
}

async function lockShow(showId: string): Promise<string> {
  const token = randomBytes(16).toString("hex");

  // one round trip: the lock itself and the numbers for the ops dashboard
  const results = await redis
    .multi()
    .set(`show:${showId}:lock`, token, "PX", TTL_MS, "NX")
    .hincrby("stats:hold-attempts", showId, 1)
    .exec();

  const failed = !results || results.some(([err]) => err !== null);
  if (failed) {
    throw new ShowBusyError(`seat plan of ${showId} is locked`);
  }
  return token;
}

async function unlockShow(showId: string, token: string): Promise<void> {
  await redis.eval(
    `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`,
    1,
    `show:${showId}:lock`,
    token,
  );
}

/** Puts seats into a cart for ten minutes. Throws ShowBusyError when someone else is choosing right now. */
export async function holdSeats(
  table: SeatTable,
  { showId, cartId, seats }: HoldRequest,
  clock: { now(): number } = Date,
): Promise<{ ok: true; until: Date } | { ok: false; conflicts: string[] }> {
  const token = await lockShow(showId);
  try {
    const taken = new Set(await table.taken(showId));
    const conflicts = seats.filter((s) => taken.has(s));
    if (conflicts.length > 0) {
      return { ok: false, conflicts };
    }
    const until = new Date(clock.now() + 10 * 60_000);
    await table.insertHolds(showId, seats, cartId, until);
    return { ok: true, until };
  } finally {
    try {
      await unlockShow(showId, token);
    } catch (e) {
      console.warn("unlock failed, waiting for the TTL", showId, e);
    }
  }
}
