import { randomUUID } from "node:crypto";
import { Redis } from "@upstash/redis";
import { Pool } from "pg";

export const runtime = "nodejs";
export const maxDuration = 15;

const LOCK_MS = 60_000;
const redis = Redis.fromEnv();
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3_000,
  statement_timeout: 3_000,
});

const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

interface Seat { id: string; row: string; number: number }

async function lockWithin(key: string, token: string, waitMs: number): Promise<boolean> {
  const until = Date.now() + waitMs;
  do {
    if ((await redis.set(key, token, { nx: true, px: LOCK_MS })) === "OK") return true;
    await new Promise((r) => setTimeout(r, 100 + Math.random() * 150));
  } while (Date.now() < until);
  return false;
}

function adjacent(seats: Seat[], count: number): Seat[] | undefined {
  for (let i = 0; i + count <= seats.length; i++) {
    const run = seats.slice(i, i + count);
    const ok = run.every((s, j) => s.row === run[0].row && s.number === run[0].number + j);
    if (ok) return run;
  }
  return undefined;
}

async function hold(showId: string, userId: string, count: number): Promise<string[] | null> {
  const db = await pool.connect();
  try {
    await db.query("BEGIN");
    const free = await db.query<Seat>(
      `SELECT id, "row", number FROM seats
        WHERE show_id = $1 AND sold = false AND (held_by IS NULL OR held_until < now())
        ORDER BY "row", number`,
      [showId],
    );
    const ids = adjacent(free.rows, count)?.map((s) => s.id);
    const held = ids && await db.query(
      `UPDATE seats SET held_by = $1, held_until = now() + interval '8 minutes'
        WHERE id = ANY($2) AND sold = false AND (held_by IS NULL OR held_until < now())`,
      [userId, ids],
    );
    if (!ids || held?.rowCount !== count) {
      await db.query("ROLLBACK");
      return null;
    }
    await db.query("COMMIT");
    return ids;
  } catch (err) {
    await db.query("ROLLBACK").catch(() => undefined);
    throw err;
  } finally {
    db.release();
  }
}

export async function POST(request: Request): Promise<Response> {
  const { showId, userId, count } = await request.json();
  if (!showId || !userId || !Number.isInteger(count) || count < 1 || count > 8) {
    return Response.json({ error: "bad request" }, { status: 400 });
  }
  const key = `seat-map:${showId}`;
  const token = randomUUID();
  try {
    if (!(await lockWithin(key, token, 3_000))) {
      return Response.json({ error: "busy" }, { status: 409 });
    }
    const ids = await hold(showId, userId, count);
    return ids
      ? Response.json({ seats: ids }, { status: 201 })
      : Response.json({ error: "not available" }, { status: 409 });
  } catch (err) {
    console.error("hold seats", showId, err);
    return Response.json({ error: "unavailable" }, { status: 503 });
  } finally {
    await redis.eval(UNLOCK, [key], [token]).catch((err) => console.warn("unlock", key, err));
  }
}
