'use strict';

const cron = require('node-cron');
const Redis = require('ioredis');
const { Pool } = require('pg');
const { S3Client, PutObjectCommand } = require('@aws-sdk/client-s3');
const { v4: uuid } = require('uuid');
const { predictTides } = require('../harmonics/predict');
const logger = require('../lib/logger');

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 3000, maxRetriesPerRequest: 1 });
const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 10000, query_timeout: 15000 });
const s3 = new S3Client({});

const LOCK_KEY = 'lock:tide-tables:publish';
const LOCK_TTL_MS = 10 * 60 * 1000;
const RUN_BUDGET_MS = 8 * 60 * 1000;

redis.defineCommand('unlockIfOwner', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('del', KEYS[1])
    end
    return 0
  `,
});

function currentSlot() {
  const d = new Date();
  d.setUTCMinutes(0, 0, 0);
  return d.toISOString();
}

async function publishStation(station, slot, signal) {
  const done = await pool.query('SELECT 1 FROM tide_publications WHERE station_id = $1 AND slot = $2', [station.id, slot]);
  if (done.rowCount > 0) return false;

  // Same constants and same slot always give the same bytes.
  const table = predictTides(station.constituents, slot, { hours: 72 });
  const objectKey = `tables/${station.id}/${slot}.json`;
  await s3.send(
    new PutObjectCommand({
      Bucket: process.env.TIDES_BUCKET,
      Key: objectKey,
      Body: JSON.stringify(table),
      ContentType: 'application/json',
    }),
    { abortSignal: signal },
  );
  signal.throwIfAborted();
  await pool.query(
    `INSERT INTO tide_publications (station_id, slot, object_key) VALUES ($1, $2, $3)
     ON CONFLICT (station_id, slot) DO NOTHING`,
    [station.id, slot, objectKey],
  );
  return true;
}

async function publishAll() {
  const token = uuid();
  const signal = AbortSignal.timeout(RUN_BUDGET_MS);
  const got = await redis.set(LOCK_KEY, token, 'PX', LOCK_TTL_MS, 'NX');
  if (got !== 'OK') {
    logger.debug('tide tables are being published elsewhere');
    return;
  }

  try {
    const slot = currentSlot();
    const { rows: stations } = await pool.query('SELECT id, constituents FROM tide_stations WHERE active ORDER BY id');
    let published = 0;
    for (const station of stations) {
      signal.throwIfAborted();
      if (await publishStation(station, slot, signal)) published += 1;
    }
    logger.info({ slot, published }, 'tide tables published');
  } finally {
    try {
      await redis.unlockIfOwner(LOCK_KEY, token);
    } catch (err) {
      logger.warn({ err }, 'could not release tide table lock');
    }
  }
}

cron.schedule(
  '5 * * * *',
  () => {
    publishAll().catch((err) => logger.error({ err }, 'tide table run failed'));
  },
  { timezone: 'UTC' },
);

module.exports = { publishAll };
