import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

// Members of the sorted set are permits, scores the time they end (server clock, ms).
const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function keep()
  local last = redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')
  redis.call('PEXPIREAT', KEYS[1], last[2])
end
`;

const TAKE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
keep()
return 1`;

const RENEW = `${NOW}
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
keep()
return 1`;

export class NoPermitError extends Error {}
export class PermitLostError extends Error {}

export class Semaphore {
  #redis: Redis;
  #key: string;
  #limit: number;
  #ttlMs: number;
  #waitMs: number;

  constructor(name: string, limit: number, opts: { redis?: Redis; ttlMs?: number; waitMs?: number } = {}) {
    this.#redis = opts.redis ?? new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
    this.#key = `semaphore:${name}`;
    this.#limit = limit;
    this.#ttlMs = opts.ttlMs ?? 12_000;
    this.#waitMs = opts.waitMs ?? 30_000;
  }

  /** Runs `fn` with one of the permits. `fn` must stop when its signal aborts. */
  async run<T>(fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { id, validUntil } = await this.#take();
    const lost = new AbortController();
    const lose = () => lost.abort(new PermitLostError(this.#key));
    let finished = false;
    let guard = setTimeout(lose, Math.max(0, validUntil - performance.now()));

    const beat = setInterval(async () => {
      const sentAt = performance.now();
      try {
        const renewed = await this.#redis.eval(RENEW, 1, this.#key, id, this.#ttlMs);
        if (finished) return;
        if (renewed !== 1) return lose();
        clearTimeout(guard);
        guard = setTimeout(lose, Math.max(0, this.#validUntil(sentAt) - performance.now()));
      } catch (err) {
        console.warn(`${this.#key}: renewal failed, the guard stays armed`, err);
      }
    }, this.#ttlMs / 4);

    try {
      const result = await fn(lost.signal);
      lost.signal.throwIfAborted();
      return result;
    } finally {
      finished = true;
      clearInterval(beat);
      clearTimeout(guard);
      await this.#drop(id);
    }
  }

  async #take(): Promise<{ id: string; validUntil: number }> {
    const giveUpAt = performance.now() + this.#waitMs;
    while (performance.now() < giveUpAt) {
      const id = randomUUID();
      const sentAt = performance.now();
      const taken = await this.#redis.eval(TAKE, 1, this.#key, id, this.#limit, this.#ttlMs);
      if (taken === 1) {
        const validUntil = this.#validUntil(sentAt);
        if (performance.now() < validUntil) return { id, validUntil };
        await this.#drop(id);
      }
      await sleep(100 + Math.random() * 200);
    }
    throw new NoPermitError(`${this.#key}: all ${this.#limit} permits are out`);
  }

  #validUntil(sentAt: number): number {
    return sentAt + this.#ttlMs * 0.85;
  }

  async #drop(id: string): Promise<void> {
    await this.#redis.zrem(this.#key, id).catch(() => 0);
  }
}
