import { randomUUID } from "node:crypto";
import axios from "axios";
import cron from "node-cron";
import pg from "pg";
import { createClient } from "redis";

const LOCK_KEY = "cron:fx-rates";
const LOCK_TTL_SECONDS = 120;

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, connectionTimeoutMillis: 5_000, query_timeout: 10_000 });
const redis = createClient({ url: process.env.REDIS_URL });
redis.on("error", (err) => console.error("redis", err.message));
await redis.connect();

const unlockScript = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

async function importRates() {
  const { data } = await axios.get("https://api.frankfurter.app/latest", { signal: AbortSignal.timeout(30_000) });
  const pairs = Object.entries(data.rates);
  // one statement for the whole table
  await pool.query(
    `INSERT INTO fx_rates (base, currency, rate, fetched_at)
     SELECT $1, c, r, now() FROM unnest($2::text[], $3::numeric[]) AS t(c, r)`,
    [data.base, pairs.map(([c]) => c), pairs.map(([, r]) => r)],
  );
  return pairs.length;
}

// every instance runs the schedule, the lock picks the one that does the import
cron.schedule("*/15 * * * *", async () => {
  const token = randomUUID();
  try {
    const ok = await redis.set(LOCK_KEY, token, { NX: true, PX: LOCK_TTL_SECONDS });
    if (ok !== "OK") return;
    try {
      console.log(`imported ${await importRates()} rates`);
    } finally {
      // hold on to the key a little so an instance with a late clock skips this round as well
      await new Promise((r) => setTimeout(r, 20_000));
      await redis.eval(unlockScript, { keys: [LOCK_KEY], arguments: [token] });
    }
  } catch (err) {
    console.error("fx-rates", err);
  }
});
