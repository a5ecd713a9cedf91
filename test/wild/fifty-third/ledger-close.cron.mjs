import 'dotenv/config';
import os from 'node:os';
import cron from 'node-cron';
import Redis from 'ioredis';
import pg from 'pg';
import pino from 'pino';

const log = pino({ name: 'ledger-close', base: { host: os.hostname() } });
const redis = new Redis(process.env.REDIS_URL);
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 2 });

const GUARD_TTL_SECONDS = 23 * 60 * 60;

function previousDay(now) {
  const day = new Date(now);
  day.setUTCDate(day.getUTCDate() - 1);
  return day.toISOString().slice(0, 10);
}

async function closeBusinessDay(businessDate) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const { rowCount } = await client.query(
      `INSERT INTO daily_balances (account_id, business_date, closing_cents)
       SELECT account_id, $1::date, SUM(amount_cents)
         FROM ledger_entries
        WHERE booked_at < ($1::date + 1)
        GROUP BY account_id
       ON CONFLICT (account_id, business_date) DO NOTHING`,
      [businessDate],
    );
    await client.query(
      `INSERT INTO closed_days (business_date, closed_at) VALUES ($1, now())
       ON CONFLICT (business_date) DO NOTHING`,
      [businessDate],
    );
    await client.query('COMMIT');
    return rowCount;
  } catch (err) {
    await client.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    client.release();
  }
}

// Every pod has this schedule. A failed close is rerun by hand (runbook FIN-12).
async function onSchedule() {
  const businessDate = previousDay(Date.now());
  const guard = `cron:ledger-close:${businessDate}`;

  const won = await redis.set(guard, os.hostname(), 'EX', GUARD_TTL_SECONDS, 'NX');
  if (won === null) {
    log.debug({ businessDate }, 'another pod has this day');
    return;
  }

  const startedAt = Date.now();
  const accounts = await closeBusinessDay(businessDate);
  log.info({ businessDate, accounts, ms: Date.now() - startedAt }, 'day closed');
}

const job = cron.schedule(
  '5 2 * * *',
  () => {
    onSchedule().catch((err) => log.error({ err, alert: 'ledger-close' }, 'close failed'));
  },
  { timezone: 'Etc/UTC' },
);

process.once('SIGTERM', async () => {
  job.stop();
  await pool.end();
  redis.disconnect();
});
