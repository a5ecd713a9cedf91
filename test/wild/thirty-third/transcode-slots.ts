import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rename, rm } from 'node:fs/promises';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 3_000 });

const TTL_MS = 30_000;
const RENEW_MS = 7_000;
const MARGIN_MS = 5_000;

// Members are tickets, scores the server time at which a ticket runs out.
const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

const KEEP = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

/** Runs `work` in one of `limit` slots; resolves to null when all are taken. */
export async function withSlot<T>(
  pool: string,
  limit: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<{ value: T } | null> {
  const key = `slots:${pool}`;
  const ticket = randomUUID();
  const askedAt = performance.now();
  if ((await redis.eval(TAKE, 1, key, ticket, TTL_MS, limit)) !== 1) return null;

  const lost = new AbortController();
  let validUntil = askedAt + TTL_MS;
  let renewing = false;

  const heartbeat = setInterval(async () => {
    if (performance.now() > validUntil - MARGIN_MS) {
      lost.abort(new Error(`slot in ${pool} could not be kept`));
      return;
    }
    if (renewing || performance.now() < validUntil - TTL_MS + RENEW_MS) return;
    renewing = true;
    const sentAt = performance.now();
    try {
      const kept = await redis.eval(KEEP, 1, key, ticket, TTL_MS);
      if (kept === 1) validUntil = sentAt + TTL_MS;
      else lost.abort(new Error(`slot in ${pool} ran out`));
    } catch (err) {
      console.warn(`slot renewal failed, trying again`, (err as Error).message);
    } finally {
      renewing = false;
    }
  }, 1_000);

  try {
    return { value: await work(lost.signal) };
  } finally {
    clearInterval(heartbeat);
    await redis.zrem(key, ticket).catch(() => console.warn(`slot in ${pool} left to run out`));
  }
}

export async function transcode(input: string, output: string): Promise<boolean> {
  const limit = Number(process.env.TRANSCODE_SLOTS ?? 4);
  const done = await withSlot('ffmpeg', limit, async (signal) => {
    const temp = `${output}.${randomUUID()}.mp4`;
    try {
      const ffmpeg = spawn('ffmpeg', ['-loglevel', 'error', '-i', input, '-c:v', 'libx264', temp], {
        stdio: ['ignore', 'ignore', 'inherit'],
        signal,
        killSignal: 'SIGKILL',
      });
      const [code] = await once(ffmpeg, 'close');
      if (code !== 0) throw new Error(`ffmpeg ended with ${code} for ${input}`);
      signal.throwIfAborted();
      await rename(temp, output);
    } finally {
      await rm(temp, { force: true });
    }
  });
  return done !== null;
}
