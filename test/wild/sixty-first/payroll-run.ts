import axios from 'axios';
import Redis from 'ioredis';
import { Pool } from 'pg';
import pino from 'pino';
import Redlock, { type RedlockAbortSignal } from 'redlock5';

const log = pino({ name: 'payroll-run' });

const pool = new Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 10_000 });
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 400 });
redis.on('error', (err) => log.error({ err }, 'redis'));

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 1,
  retryDelay: 200,
  retryJitter: 50,
  automaticExtensionThreshold: 8_000,
});
redlock.on('error', (err) => log.debug({ err }, 'redlock'));

const LEASE_MS = 30_000;

interface Employee {
  id: string;
  iban: string;
  net_cents: number;
}

export class PayrollUnavailableError extends Error {}

async function unpaidEmployees(companyId: string, period: string): Promise<Employee[]> {
  const { rows } = await pool.query<Employee>(
    `SELECT e.id, e.iban, s.net_cents
       FROM employees e JOIN salary_statements s ON s.employee_id = e.id AND s.period = $2
      WHERE e.company_id = $1
        AND NOT EXISTS (SELECT 1 FROM payouts p WHERE p.employee_id = e.id AND p.period = $2)
      ORDER BY e.id`,
    [companyId, period],
  );
  return rows;
}

async function payOne(employee: Employee, period: string, signal: RedlockAbortSignal): Promise<void> {
  const { data } = await axios.post(
    `${process.env.BANK_API}/transfers`,
    { iban: employee.iban, amountCents: employee.net_cents, reference: `SALARY ${period}` },
    { headers: { 'Idempotency-Key': `salary:${employee.id}:${period}` }, timeout: 8_000, signal },
  );
  await pool.query(
    `INSERT INTO payouts (employee_id, period, amount_cents, transfer_id)
     VALUES ($1, $2, $3, $4) ON CONFLICT (employee_id, period) DO NOTHING`,
    [employee.id, period, employee.net_cents, data.id],
  );
}

async function payAll(companyId: string, period: string, signal: RedlockAbortSignal): Promise<number> {
  const employees = await unpaidEmployees(companyId, period);
  let paid = 0;
  for (const employee of employees) {
    if (signal.aborted) throw signal.error ?? new Error('payroll lock lost');
    await payOne(employee, period, signal);
    paid += 1;
  }
  return paid;
}

export async function runPayroll(companyId: string, period: string): Promise<number> {
  let started = false;
  let paid: number | undefined;
  try {
    return await redlock.using([`payroll:${companyId}`], LEASE_MS, async (signal) => {
      started = true;
      paid = await payAll(companyId, period, signal);
      return paid;
    });
  } catch (err) {
    if (!started) {
      throw new PayrollUnavailableError(`payroll of ${companyId} is locked or redis is down`, { cause: err });
    }
    if (paid !== undefined) {
      log.warn({ err, companyId, period }, 'payroll finished, lock could not be released');
      return paid;
    }
    log.error({ err, companyId, period }, 'payroll run interrupted');
    throw err;
  }
}

export async function main(argv: string[]): Promise<void> {
  const [companyId, period] = argv;
  if (!companyId || !/^\d{4}-\d{2}$/.test(period ?? '')) {
    throw new Error('usage: payroll-run <companyId> <YYYY-MM>');
  }
  try {
    const count = await runPayroll(companyId, period);
    log.info({ companyId, period, count }, 'payroll done');
  } finally {
    redis.disconnect();
    await pool.end();
  }
}
