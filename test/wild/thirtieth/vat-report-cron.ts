import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";

const redis = new Redis({
  host: process.env.REDIS_HOST ?? "localhost",
  port: Number(process.env.REDIS_PORT ?? 6379),
  password: process.env.REDIS_PASSWORD,
});
redis.on("error", (e) => console.error("vat-report: redis:", e.message));

const LEASE_MS = 20 * 60_000;
const WORK_LIMIT_MS = 8 * 60_000;
const DONE_SECONDS = 40 * 24 * 3600; // longer than the period itself

const CLAIM = `
local cur = redis.call('get', KEYS[1])
if not cur then
  redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 'claimed'
end
if cur == ARGV[1] then return 'claimed' end -- command was resent after a reconnect
if cur == 'done' then return 'done' end
return 'busy'`;

const FINISH = `
local cur = redis.call('get', KEYS[1])
if cur == 'done' then return 1 end
if cur ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], 'done', 'EX', ARGV[2])
return 1`;

const DROP = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

export interface Deps {
  ledger: { vatTotals(period: string, signal: AbortSignal): Promise<{ rate: number; netCents: number; vatCents: number }[]> };
  store: { put(name: string, body: string, signal: AbortSignal): Promise<void> };
}

export function previousMonth(now: Date): string {
  const d = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1, 1));
  return d.toISOString().slice(0, 7);
}

/** Called by the scheduler on every pod, each quarter of an hour. */
export async function tick(deps: Deps, now = new Date()): Promise<"ran" | "done" | "busy"> {
  const period = previousMonth(now);
  const key = `cron:vat-report:${period}`;
  const token = randomUUID();
  const sentAt = Date.now();

  let state: unknown;
  try {
    state = await redis.eval(CLAIM, 1, key, token, LEASE_MS);
  } catch (err) {
    await drop(key, token);
    throw err;
  }
  if (state === "done") return "done";
  if (state !== "claimed") return "busy";

  try {
    const signal = AbortSignal.timeout(WORK_LIMIT_MS);
    const totals = await deps.ledger.vatTotals(period, signal);
    const csv = ["rate,net,vat", ...totals.map((t) => `${t.rate},${t.netCents},${t.vatCents}`)].join("\n");
    signal.throwIfAborted();
    if (Date.now() - sentAt > LEASE_MS / 2) throw new Error(`vat-report ${period}: took too long, next tick will retry`);
    // same object name every time, a repeated run overwrites it
    await deps.store.put(`vat/${period}.csv`, csv, signal);
  } catch (err) {
    await drop(key, token);
    throw err;
  }

  await finish(key, token);
  return "ran";
}

// The key stays behind as "done" so that later ticks skip the month.
async function finish(key: string, token: string): Promise<void> {
  for (let attempt = 1; attempt <= 4; attempt++) {
    try {
      const n = await redis.eval(FINISH, 1, key, token, DONE_SECONDS);
      if (n !== 1) console.warn(`vat-report: claim on ${key} had lapsed`);
      return;
    } catch (err) {
      console.warn(`vat-report: could not mark ${key} (${attempt})`, err);
      await delay(attempt * 2_000);
    }
  }
}

async function drop(key: string, token: string): Promise<void> {
  try {
    await redis.eval(DROP, 1, key, token);
  } catch (err) {
    console.warn(`vat-report: could not drop ${key}`, err);
  }
}
