'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock4');

const redis = new Redis(process.env.REDIS_URL || 'redis://localhost:6379');
redis.on('error', (err) => console.error('payroll redis:', err.message));

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 0, // if another worker has it, leave it to that one
});
redlock.on('clientError', (err) => console.error('redlock:', err.message));

const LOCK_TTL = 30 * 1000;

class PayrollInProgressError extends Error {
  constructor(companyId, period) {
    super(`payroll ${period} of company ${companyId} is already running`);
    this.name = 'PayrollInProgressError';
  }
}

function netPay(employee, hours) {
  const gross = employee.salary ?? hours.regular * employee.rate + hours.overtime * employee.rate * 1.5;
  const tax = Math.round(gross * employee.taxRate);
  const insurance = Math.round(gross * 0.0765);
  return { gross, tax, insurance, net: gross - tax - insurance };
}

async function hoursWorked(employeeId, period) {
  const res = await fetch(`${process.env.TIMESHEET_API_URL}/employees/${employeeId}/hours?period=${period}`, {
    headers: { authorization: `Bearer ${process.env.TIMESHEET_API_KEY}` },
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`timesheets answered ${res.status}`);
  return res.json();
}

/**
 * Posts the salary of everybody in the company who has not been paid for the period yet.
 * Started from the back office and by the nightly scheduler. `repo.postSalary` writes the
 * payslip and the payment order in one database transaction.
 */
async function runPayroll(repo, companyId, period) {
  let lock;
  try {
    lock = await redlock.lock(`payroll:${companyId}:${period}`, LOCK_TTL);
  } catch (err) {
    if (err.name === 'LockError') throw new PayrollInProgressError(companyId, period);
    throw err;
  }

  try {
    const employees = await repo.unpaidEmployees(companyId, period);
    const failed = [];

    for (const employee of employees) {
      try {
        const hours = await hoursWorked(employee.id, period);
        await repo.postSalary(employee.id, period, netPay(employee, hours));
      } catch (err) {
        console.error(`payroll of employee ${employee.id} failed`, err);
        failed.push(employee.id);
      }
    }

    return { paid: employees.length - failed.length, failed };
  } finally {
    await lock.unlock().catch((err) => console.warn('payroll lock not released:', err.message));
  }
}

module.exports = { runPayroll, PayrollInProgressError };
