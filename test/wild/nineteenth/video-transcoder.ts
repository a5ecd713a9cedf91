import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import Redis from "ioredis";

export const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000, maxRetriesPerRequest: 2 });
redis.on("error", (err) => console.error("redis", err.message));

const ACQUIRE = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;
const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const TTL_MS = 15_000, MARGIN_MS = 250;

class JobLock {
  private readonly abort = new AbortController();
  private readonly token = randomUUID();
  private fuse?: NodeJS.Timeout;
  private watchdog?: NodeJS.Timeout;
  private closed = false;
  readonly signal = this.abort.signal;

  constructor(private readonly client: Redis, private readonly key: string) {}

  async take(): Promise<boolean> {
    const sentAt = performance.now();
    try {
      if ((await this.client.eval(ACQUIRE, 1, this.key, this.token, TTL_MS)) !== 1) return false;
    } catch (err) {
      await this.release();
      throw err;
    }
    this.arm(sentAt);
    this.watchdog = setInterval(() => void this.extend(), TTL_MS / 3);
    return true;
  }

  private arm(sentAt: number): void {
    clearTimeout(this.fuse);
    this.fuse = setTimeout(() => this.lost(), Math.max(0, sentAt + TTL_MS - MARGIN_MS - performance.now()));
  }

  private lost(): void {
    clearInterval(this.watchdog);
    clearTimeout(this.fuse);
    this.abort.abort(new Error(`lost ${this.key}`));
  }

  private async extend(): Promise<void> {
    const sentAt = performance.now();
    const ok = await this.client.eval(EXTEND, 1, this.key, this.token, TTL_MS).catch(() => null);
    if (this.closed || this.signal.aborted || ok === null) return;
    if (ok === 1) this.arm(sentAt);
    else this.lost();
  }

  async release(): Promise<void> {
    this.closed = true;
    clearInterval(this.watchdog);
    clearTimeout(this.fuse);
    await this.client.eval(RELEASE, 1, this.key, this.token).catch((e) => console.warn(this.key, e.message));
  }
}

/** The encoder was short of memory or a GPU; the job goes back to the queue. */
export class EncoderOverloaded extends Error {}
export type Encode = (videoId: string, signal: AbortSignal) => Promise<void>;

export async function transcode(videoId: string, encode: Encode, client = redis): Promise<"done" | "busy" | "requeue"> {
  const lock = new JobLock(client, `transcode:${videoId}`);
  if (!(await lock.take())) return "busy";
  try {
    await encode(videoId, lock.signal);
    await lock.release();
    return "done";
  } catch (err) {
    if (err instanceof EncoderOverloaded) {
      await lock.release();
      return "requeue";
    }
    throw err; // the worker reports it and goes on with the next job
  }
}
