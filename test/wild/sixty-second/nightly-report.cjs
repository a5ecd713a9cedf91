'use strict';

/*
 * Mails the sales report every night at 05:00. The app runs on several
 * servers with the same crontab, only one of them should do it.
 */

const cron = require('node-cron');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { buildSalesReport } = require('./reports/sales');
const { sendMail } = require('./mail');

const client = new Redis(process.env.REDIS_URL, { commandTimeout: 2000, maxRetriesPerRequest: 2 });
client.on('error', (err) => console.error('[redis]', err.message));

const redlock = new Redlock([client], {
  driftFactor: 0.01,
  retryCount: 0, // do not queue up behind the server that got it
});
redlock.on('clientError', (err) => console.error('[redlock]', err.message));

const LOCK_TTL = 15 * 60 * 1000;
const JOB_LIMIT = 10 * 60 * 1000;

/**
 * Run `job` on one server only.
 *
 * @param {string} name
 * @param {(signal: AbortSignal) => Promise<void>} job
 * @returns {Promise<boolean>} false if another server is on it
 */
async function onOneServer(name, job) {
  let lock;
  try {
    lock = await redlock.lock(`cron:${name}`, LOCK_TTL);
  } catch (err) {
    if (err.name === 'LockError') return false;
    throw err;
  }

  try {
    await job(AbortSignal.timeout(JOB_LIMIT));
    return true;
  } finally {
    try {
      await lock.unlock();
    } catch (err) {
      console.warn('[cron] unlock of %s failed, it expires by itself: %s', name, err.message);
    }
  }
}

/** Takes two or three seconds with production data. */
async function mailSalesReport(signal) {
  const yesterday = new Date(Date.now() - 24 * 3600 * 1000).toISOString().slice(0, 10);
  const pdf = await buildSalesReport({ day: yesterday, signal });
  signal.throwIfAborted();
  await sendMail({
    to: process.env.REPORT_RECIPIENTS.split(','),
    subject: `Sales report ${yesterday}`,
    text: 'See attachment.',
    attachments: [{ filename: `sales-${yesterday}.pdf`, content: pdf }],
  });
}

function schedule() {
  cron.schedule(
    '0 5 * * *',
    async () => {
      try {
        const ran = await onOneServer('sales-report', mailSalesReport);
        console.log('[cron] sales-report: %s', ran ? 'sent' : 'left to another server');
      } catch (err) {
        console.error('[cron] sales-report failed', err);
      }
    },
    { timezone: 'Europe/Berlin' },
  );
}

module.exports = { onOneServer, schedule };

if (require.main === module) schedule();
