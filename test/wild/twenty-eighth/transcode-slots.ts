import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

/**
 * The GPU box runs at most GPU_SLOTS encodes at a time, whichever worker starts them.
 * Every slot is a member of a sorted set whose score is the moment it lapses, by the
 * clock of the Redis server.
 */
const SLOTS_KEY = 'transcode:gpu:slots';
const MAX_SLOTS = Number(process.env.GPU_SLOTS ?? 4);
const SLOT_TTL_MS = 20_000;
const BEAT_MS = 4_000;

const NOW = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
`;

const CLAIM = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

const BEAT = `${NOW}
local lapses = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not lapses or tonumber(lapses) <= now then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

export class GpuSlot implements AsyncDisposable {
  readonly #redis: Redis;
  readonly #id: string;
  readonly #lost = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #validUntil: number;

  private constructor(redis: Redis, id: string, validUntil: number) {
    this.#redis = redis;
    this.#id = id;
    this.#validUntil = validUntil;
    this.#timer = setInterval(() => void this.#beat(), BEAT_MS);
  }

  static async claim(redis: Redis, waitMs = 10 * 60_000): Promise<GpuSlot> {
    const id = randomUUID();
    const giveUpAt = performance.now() + waitMs;
    while (performance.now() < giveUpAt) {
      const sentAt = performance.now();
      const claimed = await redis.eval(CLAIM, 1, SLOTS_KEY, id, MAX_SLOTS, SLOT_TTL_MS);
      if (claimed === 1) return new GpuSlot(redis, id, sentAt + SLOT_TTL_MS);
      await sleep(500 + Math.random() * 500);
    }
    throw new Error(`no GPU slot within ${waitMs} ms`);
  }

  /** Aborted as soon as the slot can no longer be relied on. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  async #beat(): Promise<void> {
    const sentAt = performance.now();
    if (sentAt > this.#validUntil - 2 * BEAT_MS) {
      this.#lose('no heartbeat got through');
      return;
    }
    try {
      const alive = await this.#redis.eval(BEAT, 1, SLOTS_KEY, this.#id, SLOT_TTL_MS);
      if (alive === 1) this.#validUntil = sentAt + SLOT_TTL_MS;
      else this.#lose('slot lapsed');
    } catch (err) {
      console.warn('[transcode] heartbeat failed, next one in a moment', (err as Error).message);
    }
  }

  #lose(reason: string): void {
    clearInterval(this.#timer);
    this.#lost.abort(new Error(`GPU slot lost: ${reason}`));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    try {
      await this.#redis.zrem(SLOTS_KEY, this.#id);
    } catch (err) {
      console.warn('[transcode] slot left to lapse', (err as Error).message);
    }
  }
}

function ffmpeg(args: string[], signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('ffmpeg', ['-hide_banner', '-y', ...args], { signal, killSignal: 'SIGKILL', stdio: 'ignore' });
    let failure: Error | undefined;
    child.once('error', (err) => {
      failure = err;
      if (child.pid === undefined) reject(err); // never started, there will be no close
    });
    child.once('close', (code) => {
      if (failure || code !== 0) reject(failure ?? new Error(`ffmpeg exited with ${code}`));
      else resolve();
    });
  });
}

export async function transcode(redis: Redis, source: string, target: string): Promise<void> {
  await using slot = await GpuSlot.claim(redis);
  slot.signal.throwIfAborted();
  await ffmpeg(['-hwaccel', 'cuda', '-i', source, '-c:v', 'h264_nvenc', '-preset', 'p5', target], slot.signal);
}
