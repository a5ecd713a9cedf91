import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;
type Mode = 'read' | 'write';

const TTL_MS = 30_000;
const WORK_MS = 25_000;
const INTENT_MS = 1_000;

export class LibraryBusy extends Error {}
export class LeaseLost extends Error {}

/** Choirs render parts (read) while nobody re-engraves the score (write). Work is cut off after 25 s. */
export class ScoreLock {
  readonly #redis: Client;
  readonly #keys: string[];

  constructor(redis: Client, scoreId: string) {
    this.#redis = redis;
    this.#keys = ['w', 'r', 'intent'].map((s) => `score:{${scoreId}}:${s}`);
  }

  read<T>(fn: (signal: AbortSignal) => Promise<T>, waitMs = 10_000) {
    return this.#run('read', fn, waitMs);
  }

  write<T>(fn: (signal: AbortSignal) => Promise<T>, waitMs = 20_000) {
    return this.#run('write', fn, waitMs);
  }

  async #run<T>(mode: Mode, fn: (signal: AbortSignal) => Promise<T>, waitMs: number): Promise<T> {
    const token = randomUUID();
    const deadline = await this.#enter(mode, token, waitMs);
    let held = false;
    let out: T;
    try {
      out = await fn(AbortSignal.timeout(Math.max(0, Math.floor(deadline - performance.now()))));
    } finally {
      held = await this.#leave(mode, token).catch(() => performance.now() < deadline);
    }
    if (!held) throw new LeaseLost(`${mode} lease on ${this.#keys[0]} ran out during the work`);
    return out;
  }

  async #enter(mode: Mode, token: string, waitMs: number): Promise<number> {
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const deadline = performance.now() + WORK_MS;
      const got = await this.#redis.eval(mode === 'read' ? READ : WRITE, {
        keys: this.#keys,
        arguments: [token, String(TTL_MS), String(INTENT_MS)],
      });
      if (got === 1 && performance.now() < deadline) return deadline;
      if (got === 1) await this.#leave(mode, token);
      if (performance.now() > giveUpAt) throw new LibraryBusy(this.#keys[0]);
      await sleep(100 + Math.random() * 150);
    }
  }

  async #leave(mode: Mode, token: string): Promise<boolean> {
    const [w, r] = this.#keys;
    if (mode === 'read') return (await this.#redis.zRem(r, token)) === 1;
    return (await this.#redis.eval(UNWRITE, { keys: [w], arguments: [token] })) === 1;
  }
}

const PURGE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)`;
const READ = `${PURGE}
if redis.call('EXISTS', KEYS[1], KEYS[3]) > 0 then return 0 end
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1`;
const WRITE = `${PURGE}
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('ZCARD', KEYS[2]) > 0 then
  redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[3])
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if redis.call('GET', KEYS[3]) == ARGV[1] then redis.call('DEL', KEYS[3]) end
return 1`;
const UNWRITE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
