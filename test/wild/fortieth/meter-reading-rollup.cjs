'use strict';
// Nightly roll-up of smart meter readings. Runs in every api pod (we have no
// separate worker deployment for this), so the pods have to agree on one.

const cron = require('node-cron');
const { createClient } = require('redis');
const { Pool } = require('pg');
const pino = require('pino');

const log = pino({ name: 'meter-rollup' });
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  options: '-c timezone=UTC', // the dates below are UTC days
});
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));

const DAYS_BACK = 7;
const GUARD_SECONDS = 20 * 60 * 60;

function utcDay(date) {
  return date.toISOString().slice(0, 10);
}

async function rollUp(day) {
  // late meters deliver up to three days afterwards, so every run goes over
  // the whole week again
  const { rowCount } = await pool.query(
    `INSERT INTO meter_daily (meter_id, day, kwh)
     SELECT meter_id, (read_at AT TIME ZONE 'UTC')::date, sum(delta_kwh)
       FROM meter_readings
      WHERE read_at >= $1::date - $2::int
        AND read_at <  $1::date
      GROUP BY 1, 2
     ON CONFLICT (meter_id, day) DO UPDATE SET kwh = excluded.kwh`,
    [day, DAYS_BACK],
  );
  return rowCount;
}

async function nightly() {
  const day = utcDay(new Date());
  const guard = `meter-rollup:${day}`;

  let first;
  try {
    first = await redis.set(guard, process.env.HOSTNAME || 'unknown', {
      NX: true,
      EX: GUARD_SECONDS,
    });
  } catch (err) {
    // without redis nobody runs tonight; tomorrow's run covers it
    log.error({ err, day }, 'could not take the guard, skipping');
    return;
  }
  if (first !== 'OK') {
    log.debug({ day }, 'another pod has it');
    return;
  }

  const started = Date.now();
  try {
    const rows = await rollUp(day);
    log.info({ day, rows, ms: Date.now() - started }, 'roll-up done');
  } catch (err) {
    // one attempt a night: the database is busy with backups until six.
    log.error({ err, day }, 'roll-up failed, will be made up for tomorrow');
  }
}

async function main() {
  await redis.connect();
  cron.schedule('15 2 * * *', nightly, { timezone: 'UTC' });
  log.info('meter roll-up scheduled');
}

// `node meter-reading-rollup.cjs 2024-03-01` for the people on call
if (require.main === module && process.argv[2]) {
  rollUp(process.argv[2])
    .then((rows) => log.info({ rows }, 'manual roll-up done'))
    .finally(() => pool.end());
} else {
  main().catch((err) => {
    log.fatal({ err }, 'cannot start');
    process.exit(1);
  });
}

module.exports = { nightly, rollUp };
