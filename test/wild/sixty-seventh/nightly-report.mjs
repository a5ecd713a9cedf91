// Runs on every web node, but only one of them builds the report.
//
// Guarantee: at most one START per calendar day (UTC). The marker is never
// deleted; it ages out after two days. If the node that won dies half way,
// there is no report for that day: ops rerun it with `--force 2024-05-01`.
// We decided that a missing report is better than customers receiving two.
//
// Redis has to be the persistent instance (appendfsync always), not the cache.
import os from 'node:os';
import cron from 'node-cron';
import { createClient } from 'redis';
import { buildReport, mailReport } from './report.mjs';

const client = createClient({
  url: process.env.REDIS_PERSISTENT_URL,
  disableOfflineQueue: true,
});
client.on('error', (err) => console.error('[redis]', err.message));
await client.connect();

const TWO_DAYS = 2 * 24 * 60 * 60;

/** The day the run is FOR. We fire at 02:00 UTC, hours away from any change of date. */
function slotOf(date) {
  return date.toISOString().slice(0, 10);
}

async function claim(slot) {
  const who = `${os.hostname()}/${process.pid} at ${new Date().toISOString()}`;
  // The value is for humans only. Nobody compares it since nobody deletes the key.
  const reply = await client.set(`cron:nightly-report:${slot}`, who, { NX: true, EX: TWO_DAYS });
  return reply === 'OK';
}

async function run(slot) {
  console.log('[report] building', slot);
  const report = await buildReport(slot);
  await mailReport(report);
  console.log('[report] done', slot);
}

async function tick() {
  const slot = slotOf(new Date());
  let mine;
  try {
    mine = await claim(slot);
  } catch (err) {
    // Unknown outcome: the claim might have been stored. Do not run.
    console.error('[report] could not claim %s, skipping: %s', slot, err.message);
    return;
  }
  if (!mine) {
    console.log('[report] %s is taken by another node', slot);
    return;
  }
  try {
    await run(slot);
  } catch (err) {
    console.error('[report] FAILED for %s, needs a manual rerun: %s', slot, err.stack);
  }
}

const forced = process.argv.indexOf('--force');
if (forced !== -1) {
  await run(process.argv[forced + 1]);
  await client.quit();
} else {
  cron.schedule('0 2 * * *', tick, { timezone: 'UTC' });
}
