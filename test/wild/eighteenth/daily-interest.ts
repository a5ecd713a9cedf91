import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const KEEP_SECONDS = 36 * 60 * 60;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * Books the interest of one day on all savings accounts, as one batch.
 * The batch is all or nothing: when this rejects, nothing has been booked.
 */
export type BookInterest = (day: string, signal: AbortSignal) => Promise<{ accounts: number }>;

async function giveBack(key: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, [key], [token]);
  } catch (err) {
    console.warn('could not give back %s', key, err);
  }
}

/** Token of our claim, or null if another replica has the day. */
async function claimDay(key: string): Promise<string | null> {
  const token = randomUUID();
  try {
    const reply = await redis.set(key, token, { nx: true, ex: KEEP_SECONDS });
    if (reply === 'OK') return token;
    // The SDK repeats a request whose answer got lost, and then meets its own first SET.
    const stored = await redis.get<string>(key);
    return stored === token ? token : null;
  } catch (err) {
    await giveBack(key, token);
    throw err;
  }
}

/**
 * All replicas call this at 01:30 UTC, give or take what their clocks and their start-up make of it.
 * Interest must be booked exactly by one of them, once per day.
 */
export async function runDailyInterest(book: BookInterest): Promise<boolean> {
  const day = new Date().toISOString().slice(0, 10);
  const key = `cron:interest:${day}`;

  const token = await claimDay(key);
  if (token === null) {
    console.info('interest of %s: another replica is on it', day);
    return false;
  }

  try {
    const { accounts } = await book(day, AbortSignal.timeout(60 * 60 * 1_000));
    console.info('interest of %s: booked on %d accounts', day, accounts);
    return true;
  } finally {
    // After a failed batch the next replica can have a go.
    await giveBack(key, token);
  }
}

function msUntilNextRun(now = new Date()): number {
  const next = new Date(now);
  next.setUTCHours(1, 30, 0, 0);
  if (next <= now) next.setUTCDate(next.getUTCDate() + 1);
  return next.getTime() - now.getTime();
}

export function scheduleDailyInterest(book: BookInterest): () => void {
  let timer: NodeJS.Timeout;
  const arm = () => {
    timer = setTimeout(() => {
      runDailyInterest(book).catch((err: unknown) => console.error('daily interest failed', err));
      arm();
    }, msUntilNextRun());
  };
  arm();
  return () => clearTimeout(timer);
}
