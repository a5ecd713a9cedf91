'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const redis = new Redis(process.env.REDIS_URL);

const CACHE_SECONDS = 30;
const LOCK_MS = 6000;
const BUILD_TIMEOUT_MS = 4000;
const PATIENCE_MS = 1500;

const FILL = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[2], ARGV[2], 'EX', ARGV[3])
  redis.call('del', KEYS[1])
  return 1
end
return 0
`;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0
`;

async function build(edition) {
  const res = await fetch(`${process.env.CMS_URL}/editions/${edition}/front`, {
    signal: AbortSignal.timeout(BUILD_TIMEOUT_MS),
  });
  if (!res.ok) throw new Error(`cms answered ${res.status} for ${edition}`);
  const { sections } = await res.json();
  return JSON.stringify({
    edition,
    builtAt: new Date().toISOString(),
    sections: sections.filter((s) => s.stories.length > 0),
  });
}

async function waitForPage(cacheKey) {
  const until = Date.now() + PATIENCE_MS;
  while (Date.now() < until) {
    await sleep(60);
    const page = await redis.get(cacheKey);
    if (page) return page;
  }
  return null;
}

async function frontPage(edition) {
  const cacheKey = `front:${edition}`;
  const lockKey = `front:${edition}:lock`;

  const cached = await redis.get(cacheKey);
  if (cached) return JSON.parse(cached);

  const token = randomUUID();
  const locked = await redis.set(lockKey, token, 'PX', LOCK_MS, 'NX');
  if (locked !== 'OK') {
    const page = await waitForPage(cacheKey);
    // readers should not stare at a spinner because one pod is slow
    return JSON.parse(page ?? (await build(edition)));
  }

  try {
    const page = (await redis.get(cacheKey)) ?? (await build(edition));
    await redis.eval(FILL, 2, lockKey, cacheKey, token, page, CACHE_SECONDS);
    return JSON.parse(page);
  } catch (err) {
    await redis.eval(UNLOCK, 1, lockKey, token).catch(() => {});
    throw err;
  }
}

module.exports = { frontPage };
