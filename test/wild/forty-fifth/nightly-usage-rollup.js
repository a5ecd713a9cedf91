'use strict';

const os = require('node:os');
const cron = require('node-cron');
const Redis = require('ioredis');
const { Pool } = require('pg');
const axios = require('axios');
const dayjs = require('dayjs');
const utc = require('dayjs/plugin/utc');
const winston = require('winston');

dayjs.extend(utc);

const logger = winston.createLogger({ transports: [new winston.transports.Console()] });
const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool({ connectionString: process.env.DATABASE_URL });

const CLAIM_SECONDS = 36 * 60 * 60;
const DAYS_BACK = 3;

async function rollUp(day) {
  await pool.query(
    `insert into usage_daily (day, tenant_id, requests, bytes)
     select $1::date, tenant_id, count(*), sum(bytes)
       from usage_events
      where created_at >= $1::date and created_at < $1::date + 1
      group by tenant_id
     on conflict (day, tenant_id)
     do update set requests = excluded.requests, bytes = excluded.bytes`,
    [day],
  );
}

async function postSummary(day) {
  const { rows } = await pool.query(
    'select count(*) as tenants, coalesce(sum(requests), 0) as requests from usage_daily where day = $1',
    [day],
  );
  await axios.post(
    process.env.SLACK_WEBHOOK_URL,
    { text: `Usage ${day}: ${rows[0].requests} requests by ${rows[0].tenants} tenants` },
    { timeout: 10_000 },
  );
}

/**
 * Runs on every API node at 02:15 UTC; one node per night does the work and the
 * channel gets at most one summary. A night that fails has no summary, its numbers
 * are made up for by the next night, which goes three days back.
 */
async function tick() {
  const today = dayjs.utc();
  const claimed = await redis.set(
    `cron:usage-rollup:${today.format('YYYY-MM-DD')}`,
    os.hostname(),
    'EX',
    CLAIM_SECONDS,
    'NX',
  );
  if (claimed !== 'OK') {
    logger.info('usage rollup is taken by another node');
    return;
  }

  for (let back = DAYS_BACK; back >= 1; back -= 1) {
    await rollUp(today.subtract(back, 'day').format('YYYY-MM-DD'));
  }
  await postSummary(today.subtract(1, 'day').format('YYYY-MM-DD'));
  logger.info('usage rollup done');
}

cron.schedule(
  '15 2 * * *',
  () => {
    tick().catch((err) => logger.error('usage rollup failed', { message: err.message, stack: err.stack }));
  },
  { timezone: 'UTC' },
);

module.exports = { tick, rollUp };
