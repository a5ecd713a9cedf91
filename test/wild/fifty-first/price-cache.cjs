'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');
const { Pool } = require('pg');

const FRESH_MS = 60_000;
const FILL_MS = 10_000;
const WAIT_MS = 2_000;

const redis = new Redis(process.env.REDIS_URL, {
  maxRetriesPerRequest: 1,
  commandTimeout: 500,
});
redis.on('error', (err) => console.warn('redis', err.message));

const pool = new Pool({ statement_timeout: 5_000 });

redis.defineCommand('storeAndUnlock', {
  numberOfKeys: 2,
  lua: `
    if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    redis.call('set', KEYS[2], ARGV[2], 'PX', ARGV[3])
    redis.call('del', KEYS[1])
    return 1`,
});

redis.defineCommand('unlock', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
    return 0`,
});

async function loadPrices(region) {
  const { rows } = await pool.query(
    'SELECT sku, amount, currency FROM prices WHERE region = $1 ORDER BY sku',
    [region],
  );
  return rows;
}

async function fill(region, keys, token) {
  try {
    const prices = await loadPrices(region);
    await redis
      .storeAndUnlock(keys.lock, keys.data, token, JSON.stringify(prices), FRESH_MS)
      .catch((err) => console.warn('store prices', region, err.message));
    return prices;
  } finally {
    await redis.unlock(keys.lock, token).catch(() => 0);
  }
}

async function claimOrHit(keys, token) {
  const until = Date.now() + WAIT_MS;
  try {
    do {
      const hit = await redis.get(keys.data);
      if (hit !== null) return { hit: JSON.parse(hit) };
      const reply = await redis.set(keys.lock, token, 'PX', FILL_MS, 'NX');
      if (reply === 'OK') return { claimed: true };
      await sleep(60 + Math.random() * 60);
    } while (Date.now() < until);
  } catch (err) {
    console.warn('price cache', err.message);
  }
  return {};
}

async function getPrices(region) {
  const keys = { data: `prices:{${region}}:data`, lock: `prices:{${region}}:fill` };
  const token = randomUUID();
  const { hit, claimed } = await claimOrHit(keys, token);
  if (hit) return hit;
  if (claimed) return fill(region, keys, token);
  return loadPrices(region);
}

module.exports = { getPrices };
