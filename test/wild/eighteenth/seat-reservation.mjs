import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379", { commandTimeout: 2_000 });
redis.on("error", (err) => console.error("[seats] redis:", err.message));

const LOCK_TTL_MS = 10_000;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

// writes the seat map only while the lock is still ours
const SAVE_IF_LOCKED = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call("set", KEYS[2], ARGV[2])
return 1`;

async function release(lockKey, token) {
  await redis.eval(RELEASE, 1, lockKey, token).catch((err) => {
    console.warn(`[seats] ${lockKey} left to expire: ${err.message}`);
  });
}

function reply(res, status, body) {
  res.statusCode = status;
  res.setHeader("content-type", "application/json");
  res.end(JSON.stringify(body));
}

/**
 * POST /events/:eventId/seats  { "seats": ["A12", "A13"] }
 *
 * The map of an event is one JSON document { "A12": "user-1", ... }; all the
 * wanted seats are taken, or none.
 */
export async function reserveSeats(req, res) {
  const { eventId } = req.params;
  const userId = req.user.id;
  const wanted = req.body?.seats;
  if (!Array.isArray(wanted) || wanted.length === 0 || wanted.length > 8) {
    return reply(res, 400, { error: "between 1 and 8 seats, please" });
  }

  const mapKey = `event:${eventId}:seatmap`;
  const lockKey = `lock:event:${eventId}:reserve:${userId}`;
  const token = randomUUID();

  let locked;
  try {
    locked = await redis.set(lockKey, token, "PX", LOCK_TTL_MS, "NX");
  } catch (err) {
    await release(lockKey, token);
    return reply(res, 503, { error: "please try again" });
  }
  if (locked !== "OK") {
    res.setHeader("retry-after", "1");
    return reply(res, 409, { error: "another reservation is in progress" });
  }

  try {
    const seatmap = JSON.parse((await redis.get(mapKey)) ?? "{}");
    const gone = wanted.filter((seat) => seatmap[seat] && seatmap[seat] !== userId);
    if (gone.length > 0) return reply(res, 409, { error: "seats already taken", seats: gone });

    for (const seat of wanted) seatmap[seat] = userId;
    const saved = await redis.eval(
      SAVE_IF_LOCKED, 2, lockKey, mapKey, token, JSON.stringify(seatmap),
    );
    if (saved !== 1) return reply(res, 503, { error: "took too long, please try again" });
    return reply(res, 201, { eventId, seats: wanted });
  } catch (err) {
    console.error("[seats] reservation failed", err);
    return reply(res, 500, { error: "reservation failed" });
  } finally {
    await release(lockKey, token);
  }
}
