'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock4');
const { log } = require('./log');
const db = require('./db');
const bank = require('./bank-client');

const LOCK_TTL_MS = 90_000;
// What one employee may take at most: bank call, two statements, some slack.
const BANK_TIMEOUT_MS = 15_000;
const QUERY_TIMEOUT_MS = 5_000;
const STEP_MS = BANK_TIMEOUT_MS + 2 * QUERY_TIMEOUT_MS + 5_000;

const client = new Redis(process.env.REDIS_URL, {
  maxRetriesPerRequest: 1,
  commandTimeout: 2_000,
});
client.on('error', (err) => log.warn({ err }, 'redis'));

const redlock = new Redlock([client], {
  driftFactor: 0.01,
  retryCount: 3,
  retryDelay: 250,
  retryJitter: 100,
});
redlock.on('clientError', (err) => log.warn({ err }, 'redlock client'));

/**
 * Makes sure that the lock lives for one more step. Rejects if it is no
 * longer ours, and then the run ends where it is.
 */
async function ensureLock(lock) {
  if (lock.expiration - Date.now() > STEP_MS) return lock;
  const extended = await lock.extend(LOCK_TTL_MS);
  if (extended.expiration - Date.now() <= STEP_MS) {
    throw new Error('payroll lock could not be extended far enough');
  }
  return extended;
}

async function payOne(run, employee) {
  const paid = await db.query({
    text: 'SELECT 1 FROM payslips WHERE run_id = $1 AND employee_id = $2',
    values: [run.id, employee.id],
    query_timeout: QUERY_TIMEOUT_MS,
  });
  if (paid.rowCount > 0) return false;

  const transfer = await bank.transfer(
    {
      // The bank refuses a second transfer with the same reference.
      reference: `PAY-${run.id}-${employee.id}`,
      iban: employee.iban,
      amountCents: employee.netCents,
    },
    { signal: AbortSignal.timeout(BANK_TIMEOUT_MS) },
  );

  await db.query({
    text: `INSERT INTO payslips (run_id, employee_id, transfer_id) VALUES ($1, $2, $3)
           ON CONFLICT (run_id, employee_id) DO NOTHING`,
    values: [run.id, employee.id, transfer.id],
    query_timeout: QUERY_TIMEOUT_MS,
  });
  return true;
}

async function runPayroll(runId) {
  let lock;
  try {
    lock = await redlock.lock(`locks:payroll:${runId}`, LOCK_TTL_MS);
  } catch (err) {
    if (err.name === 'LockError') {
      log.info({ runId }, 'payroll run is in progress elsewhere');
      return { started: false, paid: 0 };
    }
    throw err;
  }

  let paid = 0;
  try {
    const run = await db.loadRun(runId, { timeout: QUERY_TIMEOUT_MS });
    if (run.status === 'closed') return { started: false, paid };

    const employees = await db.loadEmployees(runId, { timeout: QUERY_TIMEOUT_MS });
    for (const employee of employees) {
      lock = await ensureLock(lock);
      if (await payOne(run, employee)) paid += 1;
    }

    lock = await ensureLock(lock);
    await db.query({
      text: "UPDATE payroll_runs SET status = 'closed' WHERE id = $1 AND status = 'open'",
      values: [runId],
      query_timeout: QUERY_TIMEOUT_MS,
    });
    return { started: true, paid };
  } finally {
    await lock.unlock().catch((err) => log.warn({ err, runId }, 'payroll unlock failed'));
    log.info({ runId, paid }, 'payroll run ended');
  }
}

module.exports = { runPayroll };
