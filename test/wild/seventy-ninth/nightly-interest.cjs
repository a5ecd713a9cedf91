'use strict';

const cron = require('node-cron');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Pool } = require('pg');

const TTL = 60_000;

const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool({ statement_timeout: 10_000, connectionTimeoutMillis: 5_000, query_timeout: 12_000 });
const redlock = new Redlock([redis], { retryCount: 0, driftFactor: 0.01 });

redlock.on('clientError', (err) => console.error('redlock client', err.message));

async function accrue(day) {
  let lock;
  try {
    lock = await redlock.lock('locks:interest', TTL);
  } catch (err) {
    if (err instanceof Redlock.LockError) {
      console.log('interest for %s is running on another node', day);
      return { skipped: true };
    }
    throw err;
  }

  let done = 0;
  try {
    const { rows } = await pool.query(
      'SELECT id FROM savings WHERE last_accrued < $1::date ORDER BY id',
      [day],
    );
    for (const { id } of rows) {
      lock = await lock.extend(TTL);
      const res = await pool.query(
        `UPDATE savings
            SET balance = balance + round(balance * daily_rate * ($2::date - last_accrued), 4),
                last_accrued = $2::date
          WHERE id = $1 AND last_accrued < $2::date`,
        [id, day],
      );
      done += res.rowCount;
    }
  } finally {
    await lock.unlock().catch((err) => console.warn('interest lock was gone already: %s', err.message));
  }
  return { skipped: false, done };
}

cron.schedule(
  '10 1 * * *',
  () => {
    const day = new Date().toISOString().slice(0, 10);
    accrue(day).then(
      (out) => console.log('interest', day, out),
      (err) => console.error('interest failed', day, err),
    );
  },
  { timezone: 'UTC' },
);

module.exports = { accrue };
