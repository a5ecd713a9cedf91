import cron from 'node-cron';
import Redis from 'ioredis';
import Redlock from 'redlock5';
import pg from 'pg';
import nodemailer from 'nodemailer';

const redis = new Redis(process.env.REDIS_URL);
const redlock = new Redlock([redis], { retryCount: 0 });
redlock.on('error', () => {});

const pool = new pg.Pool();
const mailer = nodemailer.createTransport(process.env.SMTP_URL);

async function renderStatement(tenant, month) {
  const { rows } = await pool.query(
    `SELECT booked_on, description, amount_cents FROM ledger
      WHERE tenant_id = $1 AND to_char(booked_on, 'YYYY-MM') = $2 ORDER BY booked_on`,
    [tenant.id, month],
  );
  const total = rows.reduce((sum, r) => sum + r.amount_cents, 0);
  const lines = rows.map((r) => `${r.booked_on.toISOString().slice(0, 10)}  ${r.description}  ${r.amount_cents / 100}`);
  return [...lines, '', `Total: ${total / 100}`].join('\n');
}

async function sendStatements(month) {
  await redlock.using([`statements:${month}`], 30_000, async (signal) => {
    const { rows: tenants } = await pool.query(
      'SELECT id, name, billing_email FROM tenants WHERE active AND last_statement IS DISTINCT FROM $1',
      [month],
    );
    console.log(`statements ${month}: ${tenants.length} to send`);

    tenants.forEach(async (tenant) => {
      if (signal.aborted) return;
      try {
        const text = await renderStatement(tenant, month);
        await mailer.sendMail({
          to: tenant.billing_email,
          subject: `Your statement for ${month}`,
          text: `Dear ${tenant.name},\n\n${text}`,
        });
        await pool.query('UPDATE tenants SET last_statement = $2 WHERE id = $1', [tenant.id, month]);
      } catch (err) {
        console.error(`statement of ${tenant.id} failed`, err);
      }
    });
  });
}

cron.schedule('0,30 2-5 1 * *', async () => {
  const d = new Date();
  d.setUTCDate(0);
  const month = d.toISOString().slice(0, 7);
  try {
    await sendStatements(month);
  } catch (err) {
    console.log('statements skipped:', err.message);
  }
});
