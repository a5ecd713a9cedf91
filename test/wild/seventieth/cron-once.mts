// Every replica has the same timer. Exactly one of them claims a given slot.
//
// A claim is for a slot of the schedule (e.g. "2024-05-01T03:00Z") and is never given back,
// so a replica with a slow clock or a slow network that turns up late finds it taken.
// At most once: if the winner dies half way, that slot is skipped and the next one is run.
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { buildNightlyReport } from './jobs/nightly-report.js';

const DAY = 24 * 60 * 60 * 1000;

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', {
  maxRetriesPerRequest: 3,
});
redis.on('error', (err) => console.error('[redis]', err.message));

// The client may resend a command after a reconnect, so a claim that is already ours is a win.
const CLAIM = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) == ARGV[1] then return 1 end
return 0`;

export function slotFor(now: number, period: number): number {
  // timers may fire a little early and clocks differ: take the nearest slot
  return Math.round(now / period) * period;
}

export async function oncePerSlot(
  name: string,
  period: number,
  job: (slot: Date) => Promise<void>,
): Promise<'ran' | 'taken'> {
  const slot = slotFor(Date.now(), period);
  const key = `cron:${name}:${new Date(slot).toISOString()}`;
  const token = randomUUID();

  const claimed = await redis.eval(CLAIM, 1, key, token, 3 * period);
  if (claimed !== 1) return 'taken';

  await job(new Date(slot));
  return 'ran';
}

function schedule(name: string, period: number, job: (slot: Date) => Promise<void>) {
  const next = (Math.floor(Date.now() / period) + 1) * period;
  const wait = next - Date.now();
  setTimeout(() => {
    oncePerSlot(name, period, job)
      .then((r) => console.log(`[cron] ${name}: ${r}`))
      .catch((err) => console.error(`[cron] ${name} failed`, err));
    // arm again well past the slot that has just fired
    setTimeout(() => schedule(name, period, job), Math.min(period / 4, 60_000));
  }, wait);
}

if (process.env.RUN_CRON === '1') {
  // the report of a day is a file of its own, named for the slot
  schedule('nightly-report', DAY, (slot) => buildNightlyReport(slot));
}
