'use strict';

const os = require('node:os');
const { randomUUID } = require('node:crypto');

const LOCK_KEY = 'jobs:dunning:lock';
const LOCK_SECONDS = 15 * 60;
const WORK_MS = 12 * 60_000;
const HOUR = 2;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

function msToNextRun(now = new Date()) {
  const next = new Date(now);
  next.setUTCHours(HOUR, 0, 0, 0);
  if (next <= now) next.setUTCDate(next.getUTCDate() + 1);
  return next - now;
}

/**
 * Runs on each API host; every night at two one of them sends the reminders.
 *
 * @param {{ redis: ReturnType<import('redis').createClient>, db: any, mailer: any, log: Console }} deps
 */
function scheduleDunning({ redis, db, mailer, log }) {
  async function remindAll(signal) {
    const { rows } = await db.query(
      `SELECT id, email, reminder_level FROM invoices
        WHERE paid_at IS NULL AND due_on < current_date AND reminder_level < 4
        ORDER BY id`,
    );
    for (const invoice of rows) {
      if (signal.aborted) {
        log.warn('dunning: out of time, the rest follows tomorrow');
        return;
      }
      const level = invoice.reminder_level + 1;
      const { rowCount } = await db.query(
        `UPDATE invoices SET reminder_level = $2, fee_cents = fee_cents + 500
          WHERE id = $1 AND reminder_level = $3 AND paid_at IS NULL`,
        [invoice.id, level, invoice.reminder_level],
      );
      if (rowCount === 0) continue;
      try {
        await mailer.send(
          { to: invoice.email, template: `reminder-${level}`, data: { invoice: invoice.id } },
          { signal: AbortSignal.timeout(10_000) },
        );
      } catch (err) {
        log.error('dunning: mail for invoice %s', invoice.id, err);
      }
    }
  }

  async function run() {
    const token = `${os.hostname()}:${randomUUID()}`;
    const started = performance.now();
    try {
      const got = await redis.set(LOCK_KEY, token, { NX: true, EX: LOCK_SECONDS });
      if (got === null) {
        log.info('dunning: another host has it tonight');
        return;
      }
      const left = Math.floor(started + WORK_MS - performance.now());
      if (left <= 0) return;
      await remindAll(AbortSignal.timeout(left));
      log.info('dunning: done');
    } finally {
      await redis
        .eval(UNLOCK, { keys: [LOCK_KEY], arguments: [token] })
        .catch((err) => log.warn('dunning: unlock failed', err));
    }
  }

  let timer;
  const plan = () => {
    timer = setTimeout(() => {
      run()
        .catch((err) => log.error('dunning failed', err))
        .finally(plan);
    }, msToNextRun());
  };
  plan();
  return () => clearTimeout(timer);
}

module.exports = { scheduleDunning };
