'use strict';

/**
 * Nightly export of the ledger to the tax adviser's SFTP drop. Every API replica runs the
 * same crontab, one of them is supposed to do the export:
 *
 *   15 2 * * *  node jobs/nightly-ledger-export.cjs
 */

const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const EXPORT_CAP_MS = 20 * 60_000;
const GUARD_TTL_S = 60 * 60;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

function bookingDay(now = new Date()) {
  const day = new Date(now);
  day.setUTCDate(day.getUTCDate() - 1);
  return day.toISOString().slice(0, 10);
}

async function exportLedger(day, signal) {
  const res = await fetch(`${process.env.LEDGER_URL}/exports`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${process.env.LEDGER_TOKEN}` },
    body: JSON.stringify({ day, format: 'datev', target: 'sftp' }),
    signal,
  });
  if (!res.ok) throw new Error(`ledger export answered ${res.status}`);
  return res.json();
}

/**
 * Runs `task` on at most one replica at a time per booking day.
 * A failed day is freed again so that the run can be repeated by hand; a finished day stays
 * taken for the rest of the hour, so replicas whose cron fires late skip it too.
 */
async function runGuarded(client, day, task, log = console) {
  const key = `cron:ledger-export:${day}`;
  const token = randomUUID();

  const taken = await client.set(key, token, { nx: true, ex: GUARD_TTL_S });
  if (taken !== 'OK') {
    log.info(`ledger export ${day}: done by another replica`);
    return false;
  }

  try {
    const result = await task(day, AbortSignal.timeout(EXPORT_CAP_MS));
    log.info(`ledger export ${day}: ${result?.bookings ?? 0} bookings`);
    return true;
  } catch (err) {
    await client.eval(RELEASE, { keys: [key], arguments: [token] });
    throw err;
  }
}

async function main() {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => console.error('redis', err.message));
  await client.connect();
  try {
    await runGuarded(client, bookingDay(), exportLedger);
  } finally {
    await client.quit();
  }
}

module.exports = { runGuarded, bookingDay };

if (require.main === module) {
  main().catch((err) => {
    console.error('ledger export failed', err);
    process.exitCode = 1;
  });
}
