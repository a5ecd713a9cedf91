'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock4');

const redlock = new Redlock([new Redis(process.env.REDIS_URL)], { retryCount: 3, retryDelay: 400 });
redlock.on('clientError', (err) => console.error('redlock', err));

class PayrollRun {
  constructor({ employees, bank, payslips }) {
    this.employees = employees;
    this.bank = bank;
    this.payslips = payslips;
  }

  async payOne(employee, period) {
    if (await this.payslips.exists(employee.id, period)) return;
    const transfer = await this.bank.transfer({
      iban: employee.iban,
      cents: employee.netCents,
      text: `Salary ${period}`,
      timeoutMs: 10_000,
    });
    await this.payslips.create({ employeeId: employee.id, period, transferId: transfer.id });
  }

  async run(companyId, period) {
    const lock = await redlock.lock(`payroll:${companyId}:${period}`, 5 * 60_000);
    try {
      const staff = await this.employees.listActive(companyId);
      staff.forEach(async (employee) => {
        try {
          await this.payOne(employee, period);
        } catch (err) {
          console.error('salary of %s for %s', employee.id, period, err);
        }
      });
      return { companyId, period, employees: staff.length };
    } finally {
      await lock.unlock().catch((err) => console.warn('payroll unlock: %s', err.message));
    }
  }
}

module.exports = { PayrollRun };
