import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

// Our encoder licence allows this many renders at once, over the whole cluster.
const MAX_RENDERS = Number(process.env.ENCODER_SEATS ?? 4);
const LEASE_MS = 120_000;
const SEGMENT_TIMEOUT_MS = 60_000;
const KEY = 'exports:encoder-seats';

// members are seat ids, scores the time (of the redis server) at which the seat lapses
const TAKE = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

const KEEP = `
if not redis.call('ZSCORE', KEYS[1], ARGV[2]) then return 0 end
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[1]), ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1`;

export interface ExportJob {
  id: string;
  segments: { from: number; to: number }[];
}

interface Deps {
  redis: RedisClientType;
  encoder: { render(jobId: string, from: number, to: number, signal: AbortSignal): Promise<void> };
  patienceMs?: number;
}

export class NoEncoderSeat extends Error {}

async function takeSeat(redis: RedisClientType, patienceMs: number): Promise<string> {
  const seat = randomUUID();
  const end = Date.now() + patienceMs;
  for (;;) {
    const got = await redis.eval(TAKE, {
      keys: [KEY],
      arguments: [String(MAX_RENDERS), String(LEASE_MS), seat],
    });
    if (got === 1) return seat;
    if (Date.now() > end) throw new NoEncoderSeat();
    await sleep(1_000 + Math.random() * 500);
  }
}

async function keepSeat(redis: RedisClientType, seat: string): Promise<void> {
  const kept = await redis.eval(KEEP, { keys: [KEY], arguments: [String(LEASE_MS), seat] });
  if (kept !== 1) throw new NoEncoderSeat('seat lapsed while exporting');
}

/** Renders segment by segment; the caller streams the progress to the browser. */
export async function* exportVideo(
  job: ExportJob,
  { redis, encoder, patienceMs = 300_000 }: Deps,
): AsyncGenerator<{ done: number; total: number }, void> {
  const seat = await takeSeat(redis, patienceMs);
  let done = 0;
  try {
    for (const { from, to } of job.segments) {
      await keepSeat(redis, seat);
      await encoder.render(job.id, from, to, AbortSignal.timeout(SEGMENT_TIMEOUT_MS));
      yield { done: ++done, total: job.segments.length };
    }
  } finally {
    // also runs when the browser goes away and the consumer breaks out of its loop
    await redis.zRem(KEY, seat);
  }
}
