/**
 * Studio licences: the lip-sync engine may run on at most `limit` machines at
 * a time. A slot is a member of a sorted set, scored with its end (Redis time).
 * Requires Redis 5 or later.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import Redis from 'ioredis';

const run = promisify(execFile);

const NOW = `
local t = redis.call('time')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ttl = tonumber(ARGV[2])
local function keep() if redis.call('pttl', KEYS[1]) < ttl then redis.call('pexpire', KEYS[1], ttl) end end`;

const TAKE = `${NOW}
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
if not redis.call('zscore', KEYS[1], ARGV[1]) and redis.call('zcard', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('zadd', KEYS[1], now + ttl, ARGV[1])
keep()
return 1`;

const KEEP = `${NOW}
local till = redis.call('zscore', KEYS[1], ARGV[1])
if not till or tonumber(till) <= now then return 0 end
redis.call('zadd', KEYS[1], now + ttl, ARGV[1])
keep()
return 1`;

export interface SlotOptions {
  limit: number;
  ttlMs: number;
  waitMs: number;
}

export class NoSlotError extends Error {}

export class DubSlots {
  constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly options: SlotOptions,
  ) {}

  /** Runs `job` in a slot; the signal fires once the slot can not be relied upon. */
  async withSlot<T>(job: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const id = randomUUID();
    const slot = new AbortController();
    let guard: NodeJS.Timeout | undefined;
    let beat: NodeJS.Timeout | undefined;
    let finished = false;
    const { ttlMs } = this.options;

    const coverFrom = (sentAt: number): void => {
      clearTimeout(guard);
      const left = sentAt + ttlMs * 0.9 - performance.now();
      guard = setTimeout(() => slot.abort(new NoSlotError('slot lost')), Math.max(0, left));
    };

    const renew = async (): Promise<void> => {
      const sentAt = performance.now();
      const kept = await this.redis.eval(KEEP, 1, this.key, id, ttlMs).catch(() => undefined);
      if (finished || slot.signal.aborted) return;
      if (kept === 0) return slot.abort(new NoSlotError('slot lost'));
      if (kept === 1) coverFrom(sentAt);
      beat = setTimeout(renew, ttlMs / 4);
    };

    try {
      coverFrom(await this.take(id));
      beat = setTimeout(renew, ttlMs / 4);
      const result = await job(slot.signal);
      slot.signal.throwIfAborted();
      return result;
    } finally {
      finished = true;
      clearTimeout(guard);
      clearTimeout(beat);
      await this.redis.zrem(this.key, id).catch(() => 0);
    }
  }

  /** Waits for a slot; resolves to the instant at which the winning request was sent. */
  private async take(id: string): Promise<number> {
    const { limit, ttlMs, waitMs } = this.options;
    const giveUp = performance.now() + waitMs;
    do {
      const sentAt = performance.now();
      if ((await this.redis.eval(TAKE, 1, this.key, id, ttlMs, limit)) === 1) return sentAt;
      await sleep(200 + Math.random() * 200);
    } while (performance.now() < giveUp);
    throw new NoSlotError(`all ${limit} slots are in use`);
  }
}

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost', {
  maxRetriesPerRequest: 1,
  commandTimeout: 2_000,
});

const slots = new DubSlots(redis, 'dub:lipsync:slots', { limit: 6, ttlMs: 30_000, waitMs: 600_000 });

/** Dubs one scene and returns what the engine printed. */
export function dubScene(sceneFile: string, voiceFile: string): Promise<string> {
  return slots.withSlot(async (signal) => {
    signal.throwIfAborted();
    const { stdout } = await run('lipsync', ['--scene', sceneFile, '--voice', voiceFile], {
      signal,
      killSignal: 'SIGKILL',
    });
    return stdout;
  });
}
