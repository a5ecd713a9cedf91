'use strict';

const { randomUUID } = require('crypto');

// Members of a sorted set, scored with the time (of the Redis server) at which
// their permit lapses. Needs Redis 5 or later, because of TIME before writes.
const NOW = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
`;

const ACQUIRE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return 1
`;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * createSemaphore(redis, { name, limit, permitMs, waitMs })
 *
 * run(fn) calls fn(signal) with one of `limit` permits. The signal fires two
 * seconds before the permit lapses; pass it to everything that talks to the vendor.
 */
function createSemaphore(redis, { name, limit, permitMs = 30000, waitMs = 10000 }) {
  if (!(permitMs > 4000)) throw new RangeError('permitMs is too short');
  const key = `semaphore:${name}`;

  redis.defineCommand('semaphoreAcquire', { numberOfKeys: 1, lua: ACQUIRE });

  async function giveBack(id) {
    try {
      await redis.zrem(key, id);
    } catch (err) {
      console.warn(`permit ${id} of ${key} is left to lapse: ${err.message}`);
    }
  }

  async function run(fn) {
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const id = randomUUID();
      const sentAt = performance.now();
      let got;
      try {
        got = await redis.semaphoreAcquire(key, id, limit, permitMs);
      } catch (err) {
        await giveBack(id);
        throw err;
      }
      if (got === 1) {
        try {
          const left = Math.floor(sentAt + permitMs - 2000 - performance.now());
          if (left <= 0) throw new Error(`permit of ${key} came too late`);
          return await fn(AbortSignal.timeout(left));
        } finally {
          await giveBack(id);
        }
      }
      if (performance.now() >= giveUpAt) throw new Error(`no permit for ${name} within ${waitMs} ms`);
      await sleep(100 + Math.random() * 150);
    }
  }

  return { run };
}

// Five requests at a time is what the vendor asks for; above that it answers 429, nothing worse.
function createVendorClient(redis, baseUrl) {
  const semaphore = createSemaphore(redis, { name: 'vendor-api', limit: 5 });
  return {
    getProduct: (id) =>
      semaphore.run(async (signal) => {
        const res = await fetch(`${baseUrl}/products/${encodeURIComponent(id)}`, { signal });
        if (!res.ok) throw new Error(`vendor answered ${res.status}`);
        return await res.json();
      }),
  };
}

module.exports = { createSemaphore, createVendorClient };
