import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000, maxRetriesPerRequest: 2 });
redis.on("error", (err) => console.error("redis:", err.message));

const ACQUIRE = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const TTL_MS = 12_000;
const MARGIN_MS = 200;

export class MeterBusy extends Error {}

export interface Reading {
  meter: string;
  takenAt: Date;
  kwh: number;
}

export interface ReadingStore {
  monthTotal(meter: string, signal: AbortSignal): Promise<number>;
  /** UPDATE meters SET total = $total, fence = $fence WHERE id = $meter AND fence <= $fence; false if no row fits */
  saveTotal(meter: string, total: number, fence: number, signal: AbortSignal): Promise<boolean>;
}

async function lockMeter<T>(
  meter: string,
  work: (fence: number, signal: AbortSignal) => Promise<T>,
  waitMs = 20_000,
): Promise<T> {
  const key = `{meter:${meter}}:lock`;
  // unique and growing: names the holder and is handed on to the database as fencing token
  const fence = await redis.incr(`{meter:${meter}}:fence`);
  const giveUpAt = performance.now() + waitMs;
  try {
    for (;;) {
      const sentAt = performance.now();
      const got = await redis.eval(ACQUIRE, 1, key, fence, TTL_MS);
      const left = Math.floor(sentAt + TTL_MS - MARGIN_MS - performance.now());
      if (got === 1 && left > 0) return await work(fence, AbortSignal.timeout(left));
      if (performance.now() >= giveUpAt) throw new MeterBusy(meter);
      await sleep(60 + Math.random() * 120);
    }
  } finally {
    await redis.eval(RELEASE, 1, key, fence).catch((err) => console.warn(`${key}: ${err.message}`));
  }
}

export async function addReading(store: ReadingStore, reading: Reading): Promise<number> {
  return lockMeter(reading.meter, async (fence, signal) => {
    const total = (await store.monthTotal(reading.meter, signal)) + reading.kwh;
    signal.throwIfAborted();
    if (!(await store.saveTotal(reading.meter, total, fence, signal))) {
      throw new Error(`meter ${reading.meter}: a newer holder has written`);
    }
    return total;
  });
}
