import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const LATEST_START = 6 * HOUR;
const MARKER_TTL_SECONDS = 48 * 3600;

export function connect(url = process.env.REDIS_URL) {
  const redis = new Redis(url, { commandTimeout: 5_000, maxRetriesPerRequest: 1 });
  redis.on("error", (err) => console.error("[cron] redis:", err.message));
  return redis;
}

// ioredis may send this a second time after a reconnect; finding our own run id
// means the first copy had already claimed the day for us.
const CLAIM = `
if redis.call("set", KEYS[1], ARGV[1], "NX", "EX", ARGV[2]) then
  return 1
end
if redis.call("get", KEYS[1]) == ARGV[1] then
  return 1
end
return 0`;

/**
 * Runs `job` on at most one replica per day. The day is that of the planned
 * time, the same on every replica whatever its clock says when the timer fires.
 *
 * The marker stays until it expires, after a failed run too: a digest that went
 * out to half of the customers must not go out to them again. A day without
 * "[cron] done" in the logs raises an alert, and somebody looks.
 */
export async function oncePerDay(redis, name, plannedFor, job) {
  const day = new Date(plannedFor).toISOString().slice(0, 10);
  const runId = randomUUID();
  let claimed;
  try {
    claimed = await redis.eval(CLAIM, 1, `cron:${name}:${day}`, runId, MARKER_TTL_SECONDS);
  } catch (err) {
    // unknown whether the claim went through: rather no digest than two
    console.error(`[cron] ${name} ${day}: no answer from redis, not running`, err);
    return false;
  }
  if (claimed !== 1) return false;

  // A replica that was suspended for days finds the marker of its day expired,
  // so a claim only counts well within the TTL.
  if (Date.now() - plannedFor > LATEST_START) {
    console.warn(`[cron] ${name} ${day}: too late, skipped`);
    return false;
  }

  console.log(`[cron] ${name} ${day}: run ${runId}`);
  await job({ day, runId });
  console.log(`[cron] done ${name} ${day}`);
  return true;
}

function firstRunAfter(now, hour, minute) {
  const date = new Date(now);
  const at = Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), hour, minute);
  return at > now ? at : at + DAY;
}

/** Every replica runs this loop; times are UTC, so there is no DST to think of. */
export async function scheduleDaily(redis, name, { hour, minute }, job, signal) {
  let plannedFor = firstRunAfter(Date.now(), hour, minute);
  while (!signal.aborted) {
    try {
      await sleep(Math.max(0, plannedFor - Date.now()), undefined, { signal });
    } catch {
      return;
    }
    try {
      await oncePerDay(redis, name, plannedFor, job);
    } catch (err) {
      console.error(`[cron] ${name} failed`, err);
    }
    // from the planned time, a timer that fired a bit early must not repeat it
    plannedFor += DAY;
  }
}
