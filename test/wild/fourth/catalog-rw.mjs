import { randomUUID } from 'node:crypto';

// KEYS: writer, readers   ARGV: token, ttl (ms)
const READ_ENTER = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return 1`;

const WRITE_ENTER = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const WRITE_LEAVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class CatalogBusy extends Error {}

/** Many readers or one writer per catalogue. Takes a connected node-redis client. */
export class CatalogRwLock {
  #redis;
  #ttlMs;

  constructor(redis, { ttlMs = 10_000 } = {}) {
    this.#redis = redis;
    this.#ttlMs = ttlMs;
  }

  #keys(id) {
    return [`catalog:{${id}}:writer`, `catalog:{${id}}:readers`];
  }

  async #enter(script, id, waitMs) {
    const token = randomUUID();
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const entered = await this.#redis.eval(script, {
        keys: this.#keys(id),
        arguments: [token, String(this.#ttlMs)],
      });
      if (entered === 1) return token;
      if (performance.now() >= giveUpAt) throw new CatalogBusy(`catalogue ${id} is busy`);
      await pause(25 + Math.random() * 50);
    }
  }

  async read(id, fn, { waitMs = 2_000 } = {}) {
    const token = await this.#enter(READ_ENTER, id, waitMs);
    try {
      return await fn();
    } finally {
      await this.#redis.zRem(this.#keys(id)[1], token);
    }
  }

  async write(id, fn, { waitMs = 5_000 } = {}) {
    const token = await this.#enter(WRITE_ENTER, id, waitMs);
    try {
      return await fn();
    } finally {
      await this.#redis.eval(WRITE_LEAVE, { keys: [this.#keys(id)[0]], arguments: [token] });
    }
  }
}

export function slugify(title) {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '');
}
