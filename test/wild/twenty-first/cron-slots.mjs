// One run per schedule slot across the fleet.
//
// Every instance keeps its own timer. When a slot comes up they all try to claim
// it, one of them gets it, the others stay quiet. A claim is never given back:
// if the run fails, that slot is gone and the next one will do. What you get is
// "at most once per slot", not "exactly once", and not "slots never overlap".
import { hostname } from 'node:os';
import Redis from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 3,
});
redis.on('error', (err) => console.error('[cron] redis:', err.message));

const CLAIM_KEPT_SECONDS = 7 * 24 * 60 * 60;
const TOO_LATE_MS = 60 * 60 * 1000; // a process that wakes up later than this skips the slot

async function claim(job, slot) {
  // The value is for humans with redis-cli only.
  const who = `${hostname()}/${process.pid}`;
  const reply = await redis.set(`cron:${job}:${slot}`, who, 'EX', CLAIM_KEPT_SECONDS, 'NX');
  return reply === 'OK';
}

async function runSlot(job, slot, task) {
  if (Date.now() - slot > TOO_LATE_MS) {
    console.warn(`[cron] ${job}: slot ${new Date(slot).toISOString()} missed`);
    return;
  }

  let mine = false;
  try {
    mine = await claim(job, slot);
  } catch (err) {
    // We cannot tell whether the claim was written, so nobody may assume it is ours.
    console.error(`[cron] ${job}: claim failed, skipping slot`, err.message);
    return;
  }
  if (!mine) return;

  try {
    await task(new Date(slot));
  } catch (err) {
    console.error(`[cron] ${job}: run failed, slot is not repeated`, err);
  }
}

/** Runs `task` at most once, in the whole fleet, for each multiple of `everyMs`. */
export function every(job, everyMs, task) {
  let timer;
  let stopped = false;

  const arm = (slot) => {
    if (stopped) return;
    timer = setTimeout(() => {
      void runSlot(job, slot, task);
      // The slot is the planned time, not the time at which the timer fired.
      arm(Math.max(slot, Math.floor(Date.now() / everyMs) * everyMs) + everyMs);
    }, Math.max(0, slot - Date.now()));
  };
  arm((Math.floor(Date.now() / everyMs) + 1) * everyMs);

  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
