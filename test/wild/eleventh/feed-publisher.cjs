'use strict';

const crypto = require('crypto');
const Redis = require('ioredis');

const TTL = 20000;
const EVERY = 5000;

const EXTEND =
  'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end';
const RELEASE =
  'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

const redis = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379', { lazyConnect: true });

async function lockFeed(feed) {
  const key = 'feed:' + feed + ':publishing';
  const token = crypto.randomBytes(16).toString('hex');
  const abort = new AbortController();

  let sent = performance.now();
  const reply = await redis.set(key, token, 'PX', TTL, 'NX');
  if (reply !== 'OK') return null;
  let validUntil = sent + TTL - 2000;

  const timer = setInterval(async () => {
    const t = performance.now();
    try {
      const n = await redis.eval(EXTEND, 1, key, token, TTL);
      if (n === 1) validUntil = t + TTL - 2000;
      else abort.abort(new Error('lock on feed ' + feed + ' lost'));
    } catch (err) {
      console.error('feed lock:', err.message);
    }
  }, EVERY);

  return {
    signal: abort.signal,
    check() {
      if (performance.now() >= validUntil) abort.abort(new Error('lock on feed ' + feed + ' expired'));
      abort.signal.throwIfAborted();
    },
    async unlock() {
      clearInterval(timer);
      await redis.eval(RELEASE, 1, key, token);
    },
  };
}

/**
 * Uploads the product feed for one marketplace, in chunks. The marketplaces reject a feed
 * when two uploads are mixed, so there is only one at a time.
 *
 * `uploadChunk` takes a second at most and stops when the signal aborts.
 */
async function publishFeed(feed, loadProducts, uploadChunk) {
  const lock = await lockFeed(feed);
  if (!lock) {
    return { feed, status: 'already-running' };
  }

  const products = await loadProducts(feed, lock.signal);
  let chunks = 0;
  for (let i = 0; i < products.length; i += 500) {
    lock.check();
    await uploadChunk(feed, chunks, products.slice(i, i + 500), lock.signal);
    chunks++;
  }

  await lock.unlock();
  return { feed, status: 'published', chunks };
}

module.exports = { publishFeed, lockFeed, redis };
