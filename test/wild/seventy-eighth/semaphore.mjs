// Counting semaphore on a sorted set, for node-redis v4. Redis 5 or newer.
//
// We use it to keep to the "max 5 parallel exports" of a partner API over all
// our pods. member = slot id, score = when the slot runs out (server time).

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const NOW = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
`;

const KEEP = `
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) * 2)
end
return 1
`;

const TAKE = `${NOW}
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then
  return 0
end
${KEEP}`;

const REFRESH = `${NOW}
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
${KEEP}`;

export class SemaphoreTimeout extends Error {}
export class SlotLost extends Error {}

export class Semaphore {
  /**
   * @param client connected node-redis client
   * @param {string} name
   * @param {{ limit: number, leaseSeconds?: number }} options
   */
  constructor(client, name, { limit, leaseSeconds = 20 }) {
    this.client = client;
    this.key = `sem:${name}`;
    this.limit = limit;
    this.leaseMs = leaseSeconds * 1000;
  }

  #eval(script, id) {
    return this.client.eval(script, {
      keys: [this.key],
      arguments: [id, String(this.leaseMs), String(this.limit)],
    });
  }

  async #giveBack(id) {
    try {
      await this.client.zRem(this.key, id);
    } catch (err) {
      console.warn(`[${this.key}] slot ${id} not given back, will run out`, err.message);
    }
  }

  async #take(timeoutMs) {
    const id = randomUUID();
    const end = performance.now() + timeoutMs;
    do {
      const sent = performance.now();
      let got;
      try {
        got = await this.#eval(TAKE, id);
      } catch (err) {
        await this.#giveBack(id);
        throw err;
      }
      if (got === 1) {
        const until = sent + this.leaseMs * 0.9;
        if (performance.now() < until) return { id, until };
        await this.#giveBack(id);
      }
      await sleep(200 + Math.random() * 300);
    } while (performance.now() < end);
    throw new SemaphoreTimeout(`no free slot in ${this.key} within ${timeoutMs} ms`);
  }

  /** fn gets a signal that fires when the slot could not be kept */
  async run(fn, { timeoutMs = 60_000 } = {}) {
    const slot = await this.#take(timeoutMs);
    const ac = new AbortController();
    let busy = false;

    const check = setInterval(() => {
      if (performance.now() >= slot.until) ac.abort(new SlotLost(this.key));
    }, 250);

    const beat = setInterval(async () => {
      if (busy || ac.signal.aborted) return;
      busy = true;
      const sent = performance.now();
      try {
        const ok = await this.#eval(REFRESH, slot.id);
        if (ok === 1) slot.until = sent + this.leaseMs * 0.9;
        else ac.abort(new SlotLost(this.key));
      } catch (err) {
        console.warn(`[${this.key}] refresh failed`, err.message);
      } finally {
        busy = false;
      }
    }, this.leaseMs / 4);

    try {
      return await fn(ac.signal);
    } finally {
      clearInterval(check);
      clearInterval(beat);
      await this.#giveBack(slot.id);
    }
  }
}
