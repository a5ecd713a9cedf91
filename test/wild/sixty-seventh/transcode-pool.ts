import { Redis } from '@upstash/redis';
import { nanoid } from 'nanoid';

/**
 * The transcoding licence allows `limit` encoders at the same time. Workers are
 * containers that come and go, so every seat is a lease in a sorted set:
 * member = seat id, score = end of the lease (server time).
 */
const TAKE_SEAT = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
return 1
`;

const KEEP_SEAT = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
return 1
`;

export interface PoolOptions {
  redis?: Redis;
  key?: string;
  limit: number;
  leaseMs?: number;
}

export interface Job {
  id: string;
  source: string;
}

export interface JobQueue {
  next(signal: AbortSignal): Promise<Job | null>;
  ack(job: Job): Promise<void>;
  retryLater(job: Job, err: unknown): Promise<void>;
}

const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms));

export class TranscodePool {
  private readonly redis: Redis;
  private readonly key: string;
  private readonly limit: number;
  private readonly leaseMs: number;

  constructor({ redis = Redis.fromEnv(), key = 'transcode:seats', limit, leaseMs = 60_000 }: PoolOptions) {
    this.redis = redis;
    this.key = key;
    this.limit = limit;
    this.leaseMs = leaseMs;
  }

  /** Waits for a seat, runs `fn`, gives the seat back. */
  async withSeat<T>(shutdown: AbortSignal, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const seat = nanoid();
    const lost = new AbortController();
    const signal = AbortSignal.any([shutdown, lost.signal]);

    let leaseEnd = await this.waitForSeat(seat, shutdown);
    const beat = setInterval(async () => {
      const sentAt = Date.now();
      try {
        const kept = await Promise.race([
          this.redis.eval(KEEP_SEAT, [this.key], [seat, String(this.leaseMs)]),
          sleep(5_000).then(() => Promise.reject(new Error('no answer'))),
        ]);
        if (kept !== 1) lost.abort(new Error('seat lost'));
        else leaseEnd = sentAt + this.leaseMs;
      } catch (err) {
        console.warn('heartbeat failed', err);
        // Several beats fit into a lease; give up before it ends.
        if (Date.now() > leaseEnd - this.leaseMs / 3) lost.abort(err);
      }
    }, this.leaseMs / 6);

    try {
      return await fn(signal);
    } finally {
      clearInterval(beat);
      await this.redis.zrem(this.key, seat).catch((err) => console.warn('seat runs out by itself', err));
    }
  }

  private async waitForSeat(seat: string, shutdown: AbortSignal): Promise<number> {
    for (;;) {
      shutdown.throwIfAborted();
      const sentAt = Date.now();
      const got = await this.redis.eval(
        TAKE_SEAT,
        [this.key],
        [seat, String(this.limit), String(this.leaseMs)],
      );
      if (got === 1) return sentAt + this.leaseMs;
      await sleep(1_000 + Math.random() * 1_000);
    }
  }
}

export async function consume(
  queue: JobQueue,
  pool: TranscodePool,
  encode: (job: Job, signal: AbortSignal) => Promise<void>,
  shutdown: AbortSignal,
) {
  while (!shutdown.aborted) {
    const job = await queue.next(shutdown);
    if (!job) continue;
    try {
      await pool.withSeat(shutdown, (signal) => encode(job, signal));
      await queue.ack(job);
    } catch (err) {
      await queue.retryLater(job, err);
    }
  }
}
