// "My app runs on 4 pods and every pod fires the job. How do I run it once?"
//
// Let all pods wake up, and let Redis decide who takes this slot. Nothing is released:
// the key *is* the record that the slot was taken, and it goes away after a day.
//
//   every('digest', 15 * 60_000, sendDigest);
//
// A slot runs at most once. If Redis cannot be asked, or the winner dies, the slot is skipped
// and the next one runs as usual. (A job that takes longer than its period meets the next slot's
// run, on this pod or another one. That is allowed here.)

import os from 'node:os';
import { createClient } from 'redis';

const KEEP_MS = 24 * 60 * 60 * 1000;
const INSTANCE = `${os.hostname()}/${process.pid}`;

const redis = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true, // a claim that is stuck in a queue for hours is of no use
});
redis.on('error', (err) => console.error('[redis]', err.message));
await redis.connect();

async function takeSlot(name, slot) {
  const key = `cron:${name}:${new Date(slot).toISOString()}`;
  try {
    const reply = await redis.set(key, INSTANCE, { NX: true, PX: KEEP_MS });
    return reply === 'OK';
  } catch (err) {
    console.warn(`[cron] ${name}: cannot claim ${key}, skipping this slot:`, err.message);
    return false;
  }
}

export function every(name, periodMs, job) {
  if (!(periodMs >= 10_000 && periodMs <= KEEP_MS / 4)) {
    throw new RangeError('period must be between 10 seconds and 6 hours');
  }

  let timer;
  let stopped = false;
  let last = 0;

  function arm() {
    if (stopped) return;
    // Slots are counted from the epoch, so all pods agree on them whenever they were started.
    // Timers may fire a moment early; never go back to a slot we have already seen.
    const slot = Math.max((Math.floor(Date.now() / periodMs) + 1) * periodMs, last + periodMs);
    last = slot;
    timer = setTimeout(() => void fire(slot), slot - Date.now());
  }

  async function fire(slot) {
    arm();
    if (Date.now() - slot > periodMs) {
      console.warn(`[cron] ${name}: woke up too late for ${new Date(slot).toISOString()}`);
      return;
    }
    if (!(await takeSlot(name, slot))) return;
    const started = Date.now();
    try {
      await job(new Date(slot));
      console.log(`[cron] ${name} done in ${Date.now() - started} ms`);
    } catch (err) {
      console.error(`[cron] ${name} failed, next try in the next slot`, err);
    }
  }

  arm();
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
