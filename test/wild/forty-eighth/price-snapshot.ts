import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import { Pool } from "pg";

/*
  CREATE TABLE price_snapshots (
    supplier text PRIMARY KEY,
    fence    bigint NOT NULL,
    taken_at timestamptz NOT NULL,
    prices   jsonb NOT NULL
  );
*/

const redis = new Redis(process.env.REDIS_URL!);
const pool = new Pool({ connectionString: process.env.DATABASE_URL });

redis.on("error", (err) => console.error("redis", err.message));

const ACQUIRE = `
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
  local n = tonumber(redis.call("get", KEYS[2]) or "0")
  local floor = tonumber(ARGV[3])
  if n < floor then n = floor end
  n = n + 1
  redis.call("set", KEYS[2], string.format("%.0f", n))
  return n
end
return 0`;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

interface Held {
  key: string;
  token: string;
  fence: number;
}

export class LockBusyError extends Error {}
export class StaleFenceError extends Error {}

async function acquire(name: string, ttlMs: number, waitMs: number, floor: number): Promise<Held> {
  const key = `{${name}}:lock`;
  const token = randomUUID();
  const giveUpAt = Date.now() + waitMs;

  for (;;) {
    const fence = Number(await redis.eval(ACQUIRE, 2, key, `{${name}}:fence`, token, ttlMs, floor));
    if (fence > 0) return { key, token, fence };
    if (Date.now() >= giveUpAt) throw new LockBusyError(`${name} is locked`);
    await sleep(100 + Math.random() * 150);
  }
}

async function release(held: Held): Promise<void> {
  try {
    await redis.eval(RELEASE, 1, held.key, held.token);
  } catch (err) {
    console.warn(`could not release ${held.key}`, err);
  }
}

async function lastFence(supplier: string): Promise<number> {
  const { rows } = await pool.query("SELECT fence FROM price_snapshots WHERE supplier = $1", [supplier]);
  return rows.length ? Number(rows[0].fence) : 0;
}

/** Downloads the full price list of a supplier and replaces our copy of it. */
export async function refreshPrices(supplier: string, url: string): Promise<void> {
  const floor = await lastFence(supplier);
  const held = await acquire(`prices:${supplier}`, 60_000, 5_000, floor);
  try {
    const takenAt = new Date();
    const res = await fetch(url, { signal: AbortSignal.timeout(40_000) });
    if (!res.ok) throw new Error(`${supplier} answered ${res.status}`);
    const prices = await res.json();

    const { rowCount } = await pool.query(
      `INSERT INTO price_snapshots (supplier, fence, taken_at, prices)
       VALUES ($1, $2, $3, $4)
       ON CONFLICT (supplier) DO UPDATE
         SET fence = EXCLUDED.fence, taken_at = EXCLUDED.taken_at, prices = EXCLUDED.prices
         WHERE price_snapshots.fence < EXCLUDED.fence`,
      [supplier, held.fence, takenAt, JSON.stringify(prices)],
    );
    if (rowCount === 0) throw new StaleFenceError(`${supplier}: fence ${held.fence} was overtaken`);
  } finally {
    await release(held);
  }
}
