'use strict';

const cron = require('node-cron');
const Redis = require('ioredis');
const axios = require('axios');
const { randomUUID } = require('node:crypto');
const db = require('../db');
const logger = require('../lib/logger');

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 3000, maxRetriesPerRequest: 1 });

const LOCK_KEY = 'glacier:firmware-rollout';
const LOCK_SECONDS = 15 * 60;
const RUN_BUDGET_MS = 10 * 60 * 1000;
const BATCH = 40;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function pushFirmware(probe, release) {
  await axios.post(
    `${process.env.IRIDIUM_BRIDGE}/probes/${probe.imei}/firmware`,
    { version: release.version, url: release.url, sha256: release.sha256 },
    { timeout: 20000, headers: { 'Idempotency-Key': `${probe.id}:${release.version}` } },
  );
  await db.query(
    `UPDATE probes SET firmware = $2, flashed_at = now()
      WHERE id = $1 AND firmware = $3`,
    [probe.id, release.version, probe.firmware],
  );
}

async function rollout() {
  const token = randomUUID();
  const acquired = await redis.setnx(LOCK_KEY, token);
  if (acquired === 0) {
    logger.info('firmware rollout already in progress');
    return;
  }
  await redis.expire(LOCK_KEY, LOCK_SECONDS);

  const stopAt = Date.now() + RUN_BUDGET_MS;
  try {
    const { rows: releases } = await db.query(
      'SELECT version, url, sha256 FROM firmware_releases WHERE approved ORDER BY built_at DESC LIMIT 1',
    );
    if (releases.length === 0) return;
    const [release] = releases;

    const { rows: probes } = await db.query(
      `SELECT id, imei, firmware FROM probes
        WHERE firmware <> $1 AND battery_mv > 3500
        ORDER BY last_seen DESC LIMIT $2`,
      [release.version, BATCH],
    );

    let flashed = 0;
    for (const probe of probes) {
      if (Date.now() > stopAt) break;
      try {
        await pushFirmware(probe, release);
        flashed += 1;
      } catch (err) {
        // Probes under fresh snow go quiet for days, next run tries again.
        logger.warn({ err, probe: probe.id }, 'probe not flashed');
      }
    }
    logger.info({ version: release.version, flashed, candidates: probes.length }, 'rollout pass finished');
  } finally {
    await redis
      .eval(RELEASE, 1, LOCK_KEY, token)
      .catch((err) => logger.warn({ err }, 'could not release rollout lock'));
  }
}

cron.schedule('*/20 * * * *', () => {
  rollout().catch((err) => logger.error({ err }, 'firmware rollout failed'));
});

module.exports = { rollout };
