'use strict';

const crypto = require('crypto');
const { promisify } = require('util');
const log = require('./logger');

const sleep = promisify(setTimeout);

// catalogue queries are cut off by statement_timeout after 10 s
const FILL_LOCK_MS = 30000;
const MAX_WAIT_MS = 3000;

const STORE = [
  "if redis.call('get', KEYS[1]) == ARGV[1] then",
  "  redis.call('set', KEYS[2], ARGV[2], 'px', ARGV[3])",
  "  redis.call('del', KEYS[1])",
  '  return 1',
  'end',
  'return 0',
].join('\n');

const UNLOCK = [
  "if redis.call('get', KEYS[1]) == ARGV[1] then",
  "  return redis.call('del', KEYS[1])",
  'end',
  'return 0',
].join('\n');

function keysFor(name) {
  return { value: `{catalog:${name}}:v`, fill: `{catalog:${name}}:fill` };
}

/**
 * Keeps a hot page from hitting Postgres once per request when its entry runs
 * out. One caller fills, the rest wait a little; a request that waited too long loads
 * for himself and does not store.
 */
module.exports = function createCatalogCache(redis) {
  async function fill(k, token, ttlMs, load) {
    let value;
    try {
      value = await load();
    } catch (err) {
      await redis.eval(UNLOCK, 1, k.fill, token).catch(() => {});
      throw err;
    }
    try {
      const jittered = Math.round(ttlMs * (0.9 + Math.random() * 0.2));
      const stored = await redis.eval(STORE, 2, k.fill, k.value, token, JSON.stringify({ v: value }), jittered);
      if (stored === 0) log.debug('fill of %s was superseded', k.value);
    } catch (err) {
      log.warn('could not store %s: %s', k.value, err.message);
    }
    return value;
  }

  async function getOrLoad(name, ttlMs, load) {
    const k = keysFor(name);
    const token = crypto.randomBytes(16).toString('hex');
    const giveUpAt = Date.now() + MAX_WAIT_MS;

    for (;;) {
      let won;
      try {
        const hit = await redis.get(k.value);
        if (hit !== null) return JSON.parse(hit).v;
        won = (await redis.set(k.fill, token, 'PX', FILL_LOCK_MS, 'NX')) === 'OK';
      } catch (err) {
        log.warn('cache unavailable for %s: %s', k.value, err.message);
        break;
      }
      if (won) return fill(k, token, ttlMs, load);
      if (Date.now() >= giveUpAt) break;
      await sleep(40 + Math.random() * 60);
    }
    return load();
  }

  /**
   * Call after the change is committed. The fill lock goes as well: a fill that
   * read the old rows then has no lock any more and its STORE is refused.
   */
  function invalidate(name) {
    const k = keysFor(name);
    return redis.del(k.value, k.fill);
  }

  return { getOrLoad, invalidate };
};
