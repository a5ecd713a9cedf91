import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { lazyConnect: true });

const LOCK_TTL_MS = 30_000;
const SAFETY_MS = 400;

const DEL_IF_MINE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const PEXPIRE_IF_MINE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

export interface HeldLock {
  key: string;
  token: string;
  signal: AbortSignal;
  stopWatchdog: () => void;
}

/** Resolves to null if another instance has the lock. */
export async function tryLock(name: string): Promise<HeldLock | null> {
  const key = `cron:${name}`;
  const token = randomUUID();
  const asked = performance.now();
  let ok = false;
  try {
    ok = (await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX')) === 'OK';
  } catch (err) {
    await redis.eval(DEL_IF_MINE, 1, key, token).catch(() => undefined);
    throw err;
  }
  if (!ok) return null;
  const until = asked + LOCK_TTL_MS - SAFETY_MS;
  if (performance.now() >= until) {
    await redis.eval(DEL_IF_MINE, 1, key, token);
    return null;
  }
  return { key, token, ...startWatchdog(key, token, until) };
}

/** Keeps the key alive as long as the owner needs it. */
function startWatchdog(key: string, token: string, until: number): Pick<HeldLock, 'signal' | 'stopWatchdog'> {
  const controller = new AbortController();
  let stopped = false;
  let expiry = setTimeout(lose, until - performance.now());

  function lose() {
    clearInterval(interval);
    controller.abort(new Error(`${key} was lost`));
  }

  const interval = setInterval(async () => {
    const asked = performance.now();
    try {
      const renewed = await redis.eval(PEXPIRE_IF_MINE, 1, key, token, LOCK_TTL_MS);
      if (stopped || controller.signal.aborted) return;
      if (renewed !== 1) return lose();
      clearTimeout(expiry);
      expiry = setTimeout(lose, Math.max(0, asked + LOCK_TTL_MS - SAFETY_MS - performance.now()));
    } catch {
      // try again on the next tick, `expiry` is the hard limit
    }
  }, LOCK_TTL_MS / 3);

  return {
    signal: controller.signal,
    stopWatchdog: () => {
      stopped = true;
      clearInterval(interval);
      clearTimeout(expiry);
    },
  };
}

export async function unlock(lock: HeldLock): Promise<void> {
  lock.stopWatchdog();
  await redis.eval(DEL_IF_MINE, 1, lock.key, lock.token);
}

/**
 * Called by the scheduler of every instance at 02:00 and again every ten minutes
 * until 04:00 (the billing itself skips customers that are already billed).
 */
export async function runDaily(bill: (signal: AbortSignal) => Promise<number>): Promise<void> {
  const lock = await tryLock('nightly-billing');
  if (!lock) {
    console.info('nightly billing: another instance takes care of it');
    return;
  }
  try {
    const invoices = await bill(lock.signal);
    await unlock(lock);
    console.info(`nightly billing: ${invoices} invoices written`);
  } catch (err) {
    // Do not crash the scheduler. The lock has a TTL, so the next slot (on
    // whichever instance) simply picks up what is left.
    console.error('nightly billing failed, will be retried in the next slot', err);
  }
}
