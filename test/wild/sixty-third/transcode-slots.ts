import { execFile } from 'node:child_process';
import { rename, rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import type { createClient } from 'redis';
import { ulid } from 'ulid';
import type { Logger } from './logger';

type Redis = ReturnType<typeof createClient>;

const run = promisify(execFile);

const SLOT_TTL_MS = 30_000;
const RENEW_EVERY_MS = 8_000;
const SAFETY_MS = 3_000;
const WAIT_LIMIT_MS = 10 * 60_000;

// Members are slot ids, scores are expiry times on the server's clock.
const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`;

const TAKE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

const RENEW = `${NOW}
local expires = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not expires or tonumber(expires) <= now then
  return 0
end
redis.call('ZADD', KEYS[1], 'XX', now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

export interface SlotOptions {
  redis: Redis;
  logger: Logger;
  /** GPU pool, e.g. "nvenc-eu". */
  pool: string;
  limit: number;
}

export async function withTranscodeSlot<T>(
  { redis, logger, pool, limit }: SlotOptions,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const key = `transcode:slots:${pool}`;
  const slot = ulid();
  const giveUpAt = performance.now() + WAIT_LIMIT_MS;
  let validUntil = 0;

  for (;;) {
    const sentAt = performance.now();
    const taken = await redis.eval(TAKE, {
      keys: [key],
      arguments: [slot, String(limit), String(SLOT_TTL_MS)],
    });
    if (taken === 1) {
      validUntil = sentAt + SLOT_TTL_MS - SAFETY_MS;
      break;
    }
    if (performance.now() > giveUpAt) throw new Error(`no transcode slot in ${pool}`);
    await delay(500 + Math.random() * 1_000);
  }

  const lost = new AbortController();
  const watchdog = setInterval(() => {
    if (performance.now() >= validUntil) lost.abort(new Error('transcode slot ran out'));
  }, 250);
  const renewal = setInterval(() => {
    const sentAt = performance.now();
    redis
      .eval(RENEW, { keys: [key], arguments: [slot, String(SLOT_TTL_MS)] })
      .then((renewed) => {
        if (renewed !== 1) lost.abort(new Error('transcode slot lost'));
        else validUntil = Math.max(validUntil, sentAt + SLOT_TTL_MS - SAFETY_MS);
      })
      .catch((err) => logger.warn({ err, key, slot }, 'slot renewal failed'));
  }, RENEW_EVERY_MS);

  try {
    const result = await work(lost.signal);
    lost.signal.throwIfAborted();
    return result;
  } finally {
    clearInterval(watchdog);
    clearInterval(renewal);
    await redis.zRem(key, slot).catch((err) => logger.warn({ err, key, slot }, 'slot not given back'));
  }
}

export async function transcode(options: SlotOptions, source: string, target: string): Promise<void> {
  const partial = `${target}.${ulid()}.part.mp4`;
  try {
    await withTranscodeSlot(options, async (signal) => {
      await run('ffmpeg', ['-y', '-i', source, '-c:v', 'h264_nvenc', '-c:a', 'aac', partial], {
        signal,
        killSignal: 'SIGKILL',
        maxBuffer: 64 * 1024 * 1024,
      });
    });
    await rename(partial, target);
  } finally {
    await rm(partial, { force: true });
  }
}
