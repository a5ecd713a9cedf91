import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";

export const redis = new Redis(process.env.REDIS_URL!, {
  commandTimeout: 2_000,
  autoResendUnfulfilledCommands: false,
});
redis.on("error", (err) => console.error("redis:", err.message));

// KEYS: writer, readers
const READ_LOCK = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('INCR', KEYS[2])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
return 1`;
const READ_UNLOCK = `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if redis.call('DECR', KEYS[1]) <= 0 then redis.call('DEL', KEYS[1]) end
return 1`;
const WRITE_LOCK = `
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[1]) then return 1 end
return 0`;
const WRITE_UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const TTL_MS = 10_000;
const MARGIN_MS = 200;

export class PriceListBusy extends Error {}
type Work<T> = (signal: AbortSignal) => Promise<T>;

async function until(attempt: () => Promise<unknown>, waitMs: number, what: string): Promise<AbortSignal> {
  const giveUpAt = performance.now() + waitMs;
  for (;;) {
    const sentAt = performance.now();
    if ((await attempt()) === 1) {
      return AbortSignal.timeout(Math.max(0, Math.floor(sentAt + TTL_MS - MARGIN_MS - performance.now())));
    }
    if (performance.now() >= giveUpAt) throw new PriceListBusy(what);
    await sleep(40 + Math.random() * 80);
  }
}

/** Many readers or one writer per price list. */
export class PriceListLock {
  private readonly writer: string;
  private readonly readers: string;

  constructor(list: string, private readonly client: Redis = redis) {
    this.writer = `{prices:${list}}:writer`;
    this.readers = `{prices:${list}}:readers`;
  }

  async read<T>(work: Work<T>, waitMs = 5_000): Promise<T> {
    const signal = await until(() => this.client.eval(READ_LOCK, 2, this.writer, this.readers, TTL_MS), waitMs, "read");
    try {
      return await work(signal);
    } finally {
      await this.client.eval(READ_UNLOCK, 1, this.readers).catch((e) => console.warn(this.readers, e.message));
    }
  }

  async write<T>(work: Work<T>, waitMs = 30_000): Promise<T> {
    const token = randomUUID();
    try {
      const signal = await until(
        () => this.client.eval(WRITE_LOCK, 2, this.writer, this.readers, TTL_MS, token), waitMs, "write",
      );
      return await work(signal);
    } finally {
      await this.client.eval(WRITE_UNLOCK, 1, this.writer, token).catch((e) => console.warn(this.writer, e.message));
    }
  }
}
