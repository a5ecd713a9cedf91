// Caps how many of our pods talk to the scanning vendor at once (contract: 6 sessions).
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

// Members are permits, scores are the moment (server clock, ms) at which each runs out.
const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
return 1
`;

const RENEW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not ends or tonumber(ends) <= now then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
return 1
`;

export class NoPermit extends Error {
  constructor(name, waitedMs) {
    super(`no permit for ${name} within ${waitedMs} ms`);
    this.name = 'NoPermit';
  }
}

export class Semaphore {
  /**
   * @param {ReturnType<typeof createClient>} client
   * @param {string} name
   * @param {{ limit: number, permitMs: number, waitMs?: number }} options
   */
  constructor(client, name, { limit, permitMs, waitMs = 10_000 }) {
    if (!(limit > 0)) throw new RangeError('limit');
    if (!(permitMs > 0)) throw new RangeError('permitMs');
    this.client = client;
    this.key = `sem:{${name}}`;
    this.name = name;
    this.limit = limit;
    this.permitMs = permitMs;
    this.waitMs = waitMs;
  }

  async acquire() {
    const id = randomUUID();
    const begin = performance.now();
    for (let n = 0; ; n += 1) {
      const sent = performance.now();
      const ok = await this.client.eval(TAKE, {
        keys: [this.key],
        arguments: [id, String(this.limit), String(this.permitMs)],
      });
      if (ok === 1) return { id, validUntil: sent + this.permitMs, returned: false };
      if (performance.now() - begin >= this.waitMs) throw new NoPermit(this.name, this.waitMs);
      await sleep(Math.min(1_000, 50 * 2 ** Math.min(n, 5)) * (0.5 + Math.random() / 2));
    }
  }

  /** @returns {Promise<boolean>} false: the permit has run out, its slot may be someone else's */
  async renew(permit) {
    const sent = performance.now();
    const ok = await this.client.eval(RENEW, {
      keys: [this.key],
      arguments: [permit.id, String(this.permitMs)],
    });
    const kept = ok === 1 && !permit.returned;
    permit.validUntil = kept ? sent + this.permitMs : 0;
    return kept;
  }

  async release(permit) {
    permit.returned = true;
    permit.validUntil = 0;
    await this.client.zRem(this.key, permit.id);
  }

  /**
   * @template T
   * @param {(signal: AbortSignal) => Promise<T>} fn gets a signal which fires when the permit runs out
   * @returns {Promise<T>}
   */
  async run(fn) {
    const permit = await this.acquire();
    try {
      const left = Math.max(0, Math.floor(permit.validUntil - performance.now()));
      const signal = AbortSignal.timeout(left);
      if (left === 0) throw new NoPermit(this.name, this.waitMs);
      return await fn(signal);
    } finally {
      await this.release(permit).catch((err) => console.warn(`[sem] ${this.name}: ${err.message}`));
    }
  }
}
