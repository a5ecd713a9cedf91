import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';

const LOCK_MS = 30_000;
const FETCH_TIMEOUT_MS = 10_000;
const FETCH_TRIES = 5;

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2_000, maxRetriesPerRequest: 1 });
redis.on('error', (err) => console.error('fx: redis', err.message));

const redlock = new Redlock([redis], { retryCount: 0 });

async function fetchRates(base) {
  let last;
  for (let i = 0; i < FETCH_TRIES; i++) {
    if (i > 0) await sleep(1_000 * i);
    try {
      const res = await fetch(`${process.env.FX_URL}/latest?base=${base}`, {
        signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
      });
      if (!res.ok) throw new Error(`fx provider answered ${res.status}`);
      const { rates } = await res.json();
      return Object.entries(rates);
    } catch (err) {
      last = err;
      console.warn('fx: attempt %d for %s: %s', i + 1, base, err.message);
    }
  }
  throw last;
}

/**
 * Reads the day's rates of a currency and books the revaluation of our open
 * positions. Every worker calls this each half minute until the day is done.
 */
export async function revalue(ledger, base, day) {
  let lock;
  try {
    lock = await redlock.acquire([`fx:revalue:${base}`], LOCK_MS);
  } catch (err) {
    if (err instanceof ExecutionError) return 'busy';
    throw err;
  }

  try {
    if (await ledger.isRevalued(base, day)) return 'already done';

    const rates = await fetchRates(base);
    const positions = new Map(await ledger.openPositions(base));
    const lines = rates
      .filter(([currency]) => positions.has(currency))
      .map(([currency, rate]) => {
        const { amount, bookedRate } = positions.get(currency);
        return { currency, rate, gain: amount / rate - amount / bookedRate };
      });

    // Appends the entries and adds the gains to the profit-and-loss accounts.
    await ledger.book(base, day, lines);
    return 'done';
  } finally {
    await lock.release().catch((err) => console.warn('fx: release', err.message));
  }
}

export async function revalueAll(ledger, bases, day = new Date().toISOString().slice(0, 10)) {
  const outcome = {};
  for (const base of bases) {
    try {
      outcome[base] = await revalue(ledger, base, day);
    } catch (err) {
      outcome[base] = 'failed';
      console.error('fx: %s', base, err);
    }
  }
  return outcome;
}
