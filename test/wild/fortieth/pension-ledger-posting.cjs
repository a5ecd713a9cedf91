'use strict';
// Posts the day's contributions of an employer to the pension ledger. Can be
// started from the back office as well as by the scheduler. A big employer
// takes the better part of a minute.

const Redis = require('ioredis');
const Redlock = require('redlock4');
const { knex: createKnex } = require('knex');
const axios = require('axios');
const pino = require('pino');

const log = pino({ name: 'ledger-posting' });
const db = createKnex({ client: 'pg', connection: process.env.DATABASE_URL });
const payroll = axios.create({ baseURL: process.env.PAYROLL_URL, timeout: 40000 });

const LOCK_TTL = 120;

const redlock = new Redlock([new Redis(process.env.REDIS_URL)], {
  driftFactor: 0.01,
  retryCount: 3,
  retryDelay: 500,
  retryJitter: 200,
});

redlock.on('clientError', (err) => log.error({ err }, 'lock server'));

async function contributionsToPost(employerId) {
  const last = await db('ledger_entries')
    .where({ employer_id: employerId })
    .max({ upTo: 'contribution_no' })
    .first();
  const { data } = await payroll.get(`/employers/${employerId}/contributions`, {
    params: { after: last.upTo || 0 },
  });
  return data.contributions;
}

async function postContributions(employerId) {
  const contributions = await contributionsToPost(employerId);
  if (contributions.length === 0) return 0;

  await db.transaction(async (trx) => {
    for (const c of contributions) {
      await trx('ledger_entries').insert({
        employer_id: employerId,
        contribution_no: c.no,
        member_id: c.memberId,
        cents: c.cents,
      });
      await trx('member_accounts').where({ id: c.memberId }).increment('balance_cents', c.cents);
    }
  });
  return contributions.length;
}

async function runForEmployer(employerId) {
  const resource = `ledger-posting:${employerId}`;

  let lock;
  try {
    lock = await redlock.lock(resource, LOCK_TTL);
  } catch (err) {
    if (err.name !== 'LockError') throw err;
    log.info({ employerId }, 'posting already under way');
    return { status: 'busy' };
  }

  try {
    const posted = await postContributions(employerId);
    log.info({ employerId, posted }, 'posted');
    return { status: 'ok', posted };
  } finally {
    await lock.unlock().catch((err) => log.warn({ err, employerId }, 'unlock'));
  }
}

async function runAll() {
  const employers = await db('employers').where({ active: true }).pluck('id');
  for (const id of employers) {
    try {
      await runForEmployer(id);
    } catch (err) {
      log.error({ err, employer: id }, 'posting failed');
    }
  }
}

module.exports = { runForEmployer, runAll };
