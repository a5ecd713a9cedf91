const os = require('os');
const { randomUUID } = require('crypto');
const cron = require('node-cron');
const { createClient } = require('redis');
const config = require('./config');
const logger = require('./logger');
const { fetchFarePages } = require('./gds');
const db = require('../db');

const LOCK_KEY = 'fare-sync:lock';
const LOCK_SECONDS = 15 * 60;
const RUN_LIMIT_MS = 10 * 60 * 1000;

const client = createClient({ url: config.redisUrl });
client.on('error', (err) => logger.error('redis error', err));

const UNLOCK = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

async function acquireLock() {
  const token = `${os.hostname()}:${randomUUID()}`;
  const acquired = await client.setNX(LOCK_KEY, token);
  if (!acquired) {
    return null;
  }
  await client.expire(LOCK_KEY, LOCK_SECONDS);
  return token;
}

async function releaseLock(token) {
  await client.eval(UNLOCK, { keys: [LOCK_KEY], arguments: [token] });
}

async function syncFares() {
  const stopAt = Date.now() + RUN_LIMIT_MS;
  let count = 0;

  for await (const page of fetchFarePages({ timeoutMs: 20000 })) {
    // rows carry the GDS revision, older revisions never overwrite newer ones
    await db.upsertFares(page, { onlyNewer: 'gds_revision' });
    count += page.length;
    if (Date.now() > stopAt) {
      logger.warn('fare sync hit the time limit, rest comes with the next run');
      break;
    }
  }
  return count;
}

async function tick() {
  const token = await acquireLock();
  if (!token) {
    logger.info('fare sync already running on another instance, skipping');
    return;
  }
  try {
    const count = await syncFares();
    logger.info(`fare sync done, ${count} fares`);
  } catch (err) {
    logger.error('fare sync failed', err);
  } finally {
    await releaseLock(token);
  }
}

async function start() {
  await client.connect();
  cron.schedule('*/20 * * * *', () => {
    tick().catch((err) => logger.error('fare sync tick failed', err));
  });
}

module.exports = { start, tick };
