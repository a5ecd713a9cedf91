'use strict';

/**
 * Ten-minute rollup of turbine output.
 *
 * The scheduler runs on every host of the control room; each ten-minute slot is
 * rolled up by at most one of them. A slot whose run failed is not tried again
 * here: `scripts/backfill.cjs` fills gaps by hand. Runs of different slots may
 * overlap, as each one works on its own window.
 */

const os = require('node:os');
const { randomUUID } = require('node:crypto');
const cron = require('node-cron');
const Redis = require('ioredis');
const { Pool } = require('pg');

const SLOT_MS = 10 * 60_000;
/** Timers may fire a few milliseconds before the wall clock says so. */
const EARLY_MS = 50;
/** A slot stays taken much longer than the clocks of the hosts may differ. */
const KEEP_MS = 3 * SLOT_MS;
/** An answer older than this is not acted upon. */
const MAX_ANSWER_MS = 30_000;

class SlotAnswerTooLateError extends Error {
  constructor(slot) {
    super(`redis took too long to answer for slot ${slot}`);
    this.name = 'SlotAnswerTooLateError';
  }
}

/**
 * Takes a slot for this host.
 *
 * @param {import('ioredis').Redis} redis
 * @param {string} name name of the job
 * @param {number} slot number of the slot since 1970
 * @returns {Promise<boolean>} whether the slot is ours
 */
async function takeSlot(redis, name, slot) {
  const askedAt = process.hrtime.bigint();
  const owner = `${os.hostname()}/${randomUUID()}`;
  const reply = await redis.set(`cron:${name}:${slot}`, owner, 'PX', KEEP_MS, 'NX');
  const tookMs = Number((process.hrtime.bigint() - askedAt) / 1_000_000n);
  if (reply === 'OK' && tookMs > MAX_ANSWER_MS) throw new SlotAnswerTooLateError(slot);
  return reply === 'OK';
}

/**
 * Runs `job` if this host is the first to ask for the current slot.
 *
 * The key is never deleted: it stands for "this slot has been started" and
 * goes away by itself when nobody can ask for the slot any more.
 *
 * @param {import('ioredis').Redis} redis
 * @param {string} name
 * @param {(window: { from: Date, to: Date }) => Promise<void>} job
 */
async function oncePerSlot(redis, name, job) {
  const slot = Math.floor((Date.now() + EARLY_MS) / SLOT_MS);

  let ours;
  try {
    ours = await takeSlot(redis, name, slot);
  } catch (err) {
    console.error(`[${name}] slot ${slot} skipped: ${err.message}`);
    return;
  }
  if (!ours) return;

  const to = new Date(slot * SLOT_MS);
  const from = new Date(to.getTime() - SLOT_MS);
  try {
    await job({ from, to });
    console.info(`[${name}] slot ${slot} done`);
  } catch (err) {
    console.error(`[${name}] slot ${slot} failed, needs a backfill`, err);
  }
}

/** Averages the raw one-second readings of all turbines over the window. */
async function rollUp(pool, { from, to }) {
  await pool.query(
    `INSERT INTO turbine_output_10min (turbine_id, slot_end, avg_kw, samples)
     SELECT turbine_id, $2, avg(kw), count(*)
       FROM turbine_readings
      WHERE read_at >= $1 AND read_at < $2
      GROUP BY turbine_id`,
    [from, to],
  );
}

function start() {
  const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 3 });
  redis.on('error', (err) => console.error('redis:', err.message));
  const pool = new Pool({ connectionString: process.env.DATABASE_URL });

  return cron.schedule('*/10 * * * *', () =>
    oncePerSlot(redis, 'turbine-rollup', (window) => rollUp(pool, window)),
  );
}

module.exports = { oncePerSlot, takeSlot, start };
