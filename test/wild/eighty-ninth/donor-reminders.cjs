'use strict';

/**
 * Reminders to blood donors.
 *
 * Every quarter of an hour each application server asks for the reminder run, and one
 * of them gets it. A run loads the donors who are due, writes to them and notes it;
 * lest two runs write to the same people, there is never more than one at a time.
 */

const cron = require('node-cron');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const nodemailer = require('nodemailer');
const { Pool } = require('pg');

const LOCK_KEY = 'locks:donor-reminders';
const LOCK_MS = 30_000;

const nodes = ['lock-1', 'lock-2', 'lock-3'].map((host) => {
  const client = new Redis({ host, maxRetriesPerRequest: 1, commandTimeout: 1_000 });
  client.on('error', (err) => console.warn(`${host}: ${err.message}`));
  return client;
});

/** Whoever comes second skips the run, so there is nothing to retry. */
const redlock = new Redlock(nodes, { retryCount: 0 });
redlock.on('clientError', (err) => console.warn('lock node:', err.message));

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 5_000,
});

const mailer = nodemailer.createTransport({
  host: process.env.SMTP_HOST,
  port: 587,
  auth: { user: process.env.SMTP_USER, pass: process.env.SMTP_PASSWORD },
  connectionTimeout: 5_000,
  socketTimeout: 10_000,
});

class ReminderRunSkipped extends Error {
  constructor(cause) {
    super('another server has the reminder run', { cause });
    this.name = 'ReminderRunSkipped';
  }
}

/** Up to two thousand donors whose waiting time is over. */
async function dueDonors() {
  const { rows } = await pool.query(
    `SELECT id, email, first_name, blood_group
       FROM donors
      WHERE may_donate_from <= current_date AND reminded_at IS NULL
      ORDER BY may_donate_from
      LIMIT 2000`,
  );
  return rows;
}

async function remind(donor) {
  await mailer.sendMail({
    from: 'donate@bloodbank.example',
    to: donor.email,
    subject: 'You can give blood again',
    text:
      `Dear ${donor.first_name},\n\n` +
      `your waiting time is over. Group ${donor.blood_group} is needed as always.\n`,
  });
  await pool.query('UPDATE donors SET reminded_at = now() WHERE id = $1', [donor.id]);
}

/**
 * Writes to all donors who are due.
 *
 * @returns {Promise<{ sent: number, failed: number }>}
 * @throws {ReminderRunSkipped} when the lock is not to be had
 */
async function runReminders() {
  let lock;
  try {
    lock = await redlock.lock(LOCK_KEY, LOCK_MS);
  } catch (err) {
    throw new ReminderRunSkipped(err);
  }

  const result = { sent: 0, failed: 0 };
  try {
    for (const donor of await dueDonors()) {
      try {
        await remind(donor);
        result.sent += 1;
      } catch (err) {
        result.failed += 1;
        console.error(`donor ${donor.id} not reminded`, err);
      }
    }
    return result;
  } finally {
    await lock.unlock().catch((err) => console.warn(`unlock: ${err.message}`));
  }
}

function start() {
  return cron.schedule('*/15 * * * *', async () => {
    try {
      const { sent, failed } = await runReminders();
      console.info(`reminders: ${sent} sent, ${failed} failed`);
    } catch (err) {
      if (err instanceof ReminderRunSkipped) console.debug(err.message);
      else console.error('reminder run failed', err);
    }
  });
}

module.exports = { runReminders, start, ReminderRunSkipped };
