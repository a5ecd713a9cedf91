'use strict';

/*
 * remember(key, seconds, loader): cache-aside with dogpile protection.
 *
 * Based on the well known "cache stampede" answer on Stack Overflow. The lock only keeps a
 * crowd of requests from running the same expensive query. It is fine if two of them slip
 * through now and then (slow loader, redis hiccup): both compute the same thing.
 */
const crypto = require('crypto');
const Redis = require('ioredis');

const redis = new Redis(process.env.CACHE_URL || 'redis://localhost:6379/1', {
  maxRetriesPerRequest: 1,
  commandTimeout: 500,
});
redis.on('error', (err) => console.error('[cache]', err.message));

const LOCK_MS = 10 * 1000;
const WAIT_MS = 3 * 1000;
const POLL_MS = 60;

redis.defineCommand('unlockIfMine', {
  numberOfKeys: 1,
  lua: 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0',
});

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// { v: value } or null, so that a cached null / false / 0 is still a hit
async function read(key) {
  try {
    const json = await redis.get(key);
    return json === null ? null : JSON.parse(json);
  } catch (err) {
    return null;
  }
}

async function loadAndStore(key, seconds, loader) {
  const value = await loader();
  try {
    await redis.set(key, JSON.stringify({ v: value }), 'EX', seconds);
  } catch (err) {
    console.warn('[cache] not stored:', key, err.message);
  }
  return value;
}

async function remember(key, seconds, loader) {
  const lockKey = 'building:' + key;
  const token = crypto.randomBytes(12).toString('hex');
  const until = Date.now() + WAIT_MS;

  for (;;) {
    const hit = await read(key);
    if (hit) return hit.v;

    let locked;
    try {
      locked = await redis.set(lockKey, token, 'PX', LOCK_MS, 'NX');
    } catch (err) {
      // no redis, no cache: answer the request anyway
      return loader();
    }

    if (locked === 'OK') {
      try {
        // somebody may have filled it between our GET and our SET
        const again = await read(key);
        if (again) return again.v;
        return await loadAndStore(key, seconds, loader);
      } finally {
        await redis.unlockIfMine(lockKey, token).catch(() => {});
      }
    }

    if (Date.now() > until) return loadAndStore(key, seconds, loader);
    await sleep(POLL_MS + Math.random() * POLL_MS);
  }
}

module.exports = { remember, redis };
