import { randomUUID } from "node:crypto";
import { DelayedError, UnrecoverableError, Worker } from "bullmq";
import Redis from "ioredis";
import pg from "pg";

const queueConnection = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: null });
const lockRedis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 1, commandTimeout: 3000 });
for (const r of [queueConnection, lockRedis]) r.on("error", (err) => console.error("redis", err.message));
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });

lockRedis.defineCommand("renewLock", {
  numberOfKeys: 1,
  lua: `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`,
});
lockRedis.defineCommand("dropLock", {
  numberOfKeys: 1,
  lua: `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`,
});

const TTL = 30_000;

async function tryLock(key) {
  const owner = randomUUID();
  let validUntil = performance.now() + TTL * 0.8;
  if ((await lockRedis.set(key, owner, "PX", TTL, "NX")) !== "OK") return null;

  const controller = new AbortController();
  const stop = (why) => controller.abort(new Error(`${key}: ${why}`));
  const ticker = setInterval(() => performance.now() > validUntil && stop("not renewed in time"), 500);
  const renewer = setInterval(async () => {
    const sentAt = performance.now();
    try {
      if ((await lockRedis.renewLock(key, owner, TTL)) !== 1) return stop("taken over");
      validUntil = sentAt + TTL * 0.8;
    } catch (err) {
      console.warn(`${key}: renew failed: ${err.message}`);
    }
  }, TTL / 5);

  return {
    signal: controller.signal,
    async release() {
      clearInterval(ticker);
      clearInterval(renewer);
      await lockRedis.dropLock(key, owner).catch((err) => console.warn(`${key}: ${err.message}`));
    },
  };
}

async function savePage(accountId, from, to, records) {
  const db = await pool.connect();
  try {
    await db.query("BEGIN");
    const moved = await db.query(
      "UPDATE accounts SET import_cursor = $3 WHERE id = $1 AND import_cursor IS NOT DISTINCT FROM $2",
      [accountId, from, to],
    );
    if (moved.rowCount !== 1) throw new Error(`account ${accountId}: cursor moved`);
    for (const r of records) {
      await db.query("INSERT INTO records (account_id, external_id, data) VALUES ($1, $2, $3)", [accountId, r.id, r]);
    }
    await db.query("COMMIT");
  } catch (err) {
    await db.query("ROLLBACK").catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

async function importAccount(accountId, signal) {
  const { rows } = await pool.query("SELECT import_cursor FROM accounts WHERE id = $1", [accountId]);
  let cursor = rows[0].import_cursor;
  for (;;) {
    signal.throwIfAborted();
    const res = await fetch(`${process.env.SOURCE_URL}/accounts/${accountId}/records?after=${cursor ?? ""}`, { signal });
    if (!res.ok) throw new Error(`source: HTTP ${res.status}`);
    const { records, lastId } = await res.json();
    if (!records.length) return;
    signal.throwIfAborted();
    await savePage(accountId, cursor, lastId, records);
    cursor = lastId;
  }
}

export const worker = new Worker(
  "account-import",
  async (job, token) => {
    const lock = await tryLock(`lock:import:${job.data.accountId}`);
    if (!lock) {
      if (Date.now() - job.timestamp > 15 * 60_000) throw new UnrecoverableError("account busy for too long");
      await job.moveToDelayed(Date.now() + 5000 + Math.random() * 2000, token);
      throw new DelayedError();
    }
    try {
      await importAccount(job.data.accountId, lock.signal);
    } finally {
      await lock.release();
    }
  },
  { connection: queueConnection, concurrency: 8 },
);
