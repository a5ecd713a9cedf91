'use strict';
// At most `limit` concurrent calls to the geocoding vendor over all our processes.
// Uses node-redis (redis@4 or redis@5).
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');

// KEYS[1] zset: member = permit, score = when it expires by the clock of Redis
const ACQUIRE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ttl = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + ttl, ARGV[2])
if redis.call('PTTL', KEYS[1]) < ttl then
  redis.call('PEXPIRE', KEYS[1], ttl)
end
return 1
`;

class SemaphoreTimeout extends Error {}

function createSemaphore(client, { name, limit, ttlMs = 30_000, waitMs = 10_000 }) {
  const key = `semaphore:${name}`;
  let sha;

  async function tryAcquire(permit) {
    const args = { keys: [key], arguments: [String(limit), permit, String(ttlMs)] };
    sha ??= await client.scriptLoad(ACQUIRE);
    try {
      return (await client.evalSha(sha, args)) === 1;
    } catch (err) {
      if (!String(err.message).startsWith('NOSCRIPT')) throw err;
      // the server was restarted or the cache flushed
      return (await client.eval(ACQUIRE, args)) === 1;
    }
  }

  async function acquire() {
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const permit = randomUUID();
      const askedAt = performance.now();
      if (await tryAcquire(permit)) return { permit, askedAt };
      if (performance.now() >= giveUpAt) throw new SemaphoreTimeout(`no permit for ${name} within ${waitMs} ms`);
      await sleep(50 + Math.random() * 100);
    }
  }

  /**
   * The signal passed to `fn` fires when 80% of the permit's life is over; `fn` must pass it on.
   * Permits of crashed processes come back after ttlMs.
   */
  return async function withPermit(fn) {
    const { permit, askedAt } = await acquire();
    try {
      const left = Math.floor(askedAt + ttlMs * 0.8 - performance.now());
      return await fn(AbortSignal.timeout(Math.max(0, left)));
    } finally {
      try {
        // the member is ours alone, so removing it cannot hit another holder
        await client.zRem(key, permit);
      } catch (err) {
        console.warn(`permit of ${name} not returned, it expires by itself:`, err.message);
      }
    }
  };
}

function createGeocoder(client) {
  const withPermit = createSemaphore(client, { name: 'geocoder', limit: 5 });

  return function geocode(address) {
    return withPermit(async (signal) => {
      const url = `https://geo.example.com/v2/search?q=${encodeURIComponent(address)}`;
      const res = await fetch(url, { signal });
      if (!res.ok) throw new Error(`geocoder answered ${res.status}`);
      return await res.json();
    });
  };
}

module.exports = { createSemaphore, createGeocoder, SemaphoreTimeout };
