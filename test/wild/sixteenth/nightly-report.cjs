'use strict';

const { randomUUID } = require('node:crypto');
const { hostname } = require('node:os');
const { createClient } = require('redis');

// Every replica has the same crontab entry. The key of a business day is taken
// by one of them and stays until it expires: a day's report is mailed at most
// once. A failed day is not tried again by itself, operations re-run it by hand.
const GUARD_TTL_SECONDS = 36 * 60 * 60;

let connecting;

function redis() {
  if (!connecting) {
    const client = createClient({ url: process.env.REDIS_URL });
    client.on('error', (err) => console.error('redis', err.message));
    connecting = client.connect().catch((err) => {
      connecting = undefined;
      throw err;
    });
  }
  return connecting;
}

/**
 * @param {string} businessDay  for example 2025-03-31, given by the scheduler
 * @returns {Promise<boolean>} true for the one replica that is to run the day
 */
async function claimDay(businessDay) {
  const client = await redis();
  const reply = await client.set(
    `cron:nightly-report:${businessDay}`,
    `${hostname()}:${randomUUID()}`,
    { condition: 'NX', expiration: { type: 'EX', value: GUARD_TTL_SECONDS } },
  );
  return reply === 'OK';
}

/**
 * @param {object} deps
 * @param {{ totalsFor(day: string): Promise<object[]> }} deps.warehouse
 * @param {{ send(message: object): Promise<void> }} deps.mailer
 * @param {{ error(...args: unknown[]): void, info(...args: unknown[]): void }} deps.log
 */
async function runNightlyReport(businessDay, { warehouse, mailer, log }) {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(businessDay)) {
    throw new TypeError(`not a business day: ${businessDay}`);
  }

  // Without an answer from Redis nobody knows who has the day: do not run.
  const mine = await claimDay(businessDay);
  if (!mine) {
    log.info('nightly report already claimed', businessDay);
    return { status: 'skipped', businessDay };
  }

  try {
    const rows = await warehouse.totalsFor(businessDay);
    await mailer.send({
      to: process.env.REPORT_RECIPIENTS,
      subject: `Totals for ${businessDay}`,
      rows,
    });
  } catch (err) {
    log.error('nightly report failed, run it by hand', businessDay, err);
    throw err;
  }
  return { status: 'sent', businessDay };
}

async function close() {
  if (!connecting) return;
  const client = await connecting;
  connecting = undefined;
  await client.close();
}

module.exports = { claimDay, runNightlyReport, close };
