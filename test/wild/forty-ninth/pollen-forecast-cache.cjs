'use strict';

const Koa = require('koa');
const Router = require('@koa/router');
const Redis = require('ioredis');
const axios = require('axios');
const { randomBytes } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const pino = require('pino');

const log = pino({ name: 'pollen' });
const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 500, maxRetriesPerRequest: 1 });
redis.on('error', (err) => log.warn({ err }, 'redis'));

const FRESH_SECONDS = 1800;
const BUILD_LOCK_MS = 20000;
const PROVIDER_TIMEOUT_MS = 8000;
const FOLLOWER_WAIT_MS = 4000;

const STORE_IF_OWNER = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
return 1`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function fetchForecast(region) {
  const { data } = await axios.get(`${process.env.AEROBIOLOGY_URL}/v2/forecast`, {
    params: { region, species: 'birch,grass,mugwort' },
    signal: AbortSignal.timeout(PROVIDER_TIMEOUT_MS),
  });
  return data;
}

async function readCache(cacheKey) {
  try {
    const raw = await redis.get(cacheKey);
    return raw === null ? null : JSON.parse(raw);
  } catch (err) {
    log.warn({ err, cacheKey }, 'cache read failed');
    return null;
  }
}

async function tryLock(lockKey, token) {
  try {
    const reply = await redis.set(lockKey, token, 'PX', BUILD_LOCK_MS, 'NX');
    return reply === 'OK' ? 'owner' : 'follower';
  } catch (err) {
    log.warn({ err, lockKey }, 'lock unavailable');
    return 'offline';
  }
}

async function getForecast(region) {
  const cacheKey = `{pollen:${region}}:forecast`;
  const lockKey = `{pollen:${region}}:building`;

  const cached = await readCache(cacheKey);
  if (cached) return cached;

  const token = randomBytes(16).toString('hex');
  const role = await tryLock(lockKey, token);

  if (role === 'owner') {
    try {
      const again = await readCache(cacheKey);
      if (again) return again;
      const forecast = await fetchForecast(region);
      await redis
        .eval(STORE_IF_OWNER, 2, lockKey, cacheKey, token, JSON.stringify(forecast), FRESH_SECONDS)
        .catch((err) => log.warn({ err, region }, 'forecast not cached'));
      return forecast;
    } finally {
      await redis.eval(UNLOCK, 1, lockKey, token).catch((err) => log.warn({ err, region }, 'unlock failed'));
    }
  }

  if (role === 'follower') {
    const until = Date.now() + FOLLOWER_WAIT_MS;
    while (Date.now() < until) {
      await sleep(150);
      const built = await readCache(cacheKey);
      if (built) return built;
    }
  }

  // Nobody has filled the cache for us: read from the provider for this request only.
  return fetchForecast(region);
}

const router = new Router();
router.get('/regions/:region/pollen', async (ctx) => {
  ctx.body = await getForecast(ctx.params.region.toLowerCase());
});

module.exports = new Koa().use(router.routes()).use(router.allowedMethods());
