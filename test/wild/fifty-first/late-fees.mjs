import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import cron from 'node-cron';
import pg from 'pg';

const LOCK_KEY = 'cron:late-fees';
const LOCK_MS = 10 * 60 * 1000;

const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 2 });
redis.on('error', (err) => console.warn('redis', err.message));

const pool = new pg.Pool({ connectionTimeoutMillis: 5_000, statement_timeout: 60_000 });

redis.defineCommand('unlock', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('del', KEYS[1])
    end
    return 0`,
});

async function applyLateFees() {
  const { rowCount } = await pool.query(
    `UPDATE invoices
        SET amount_due = amount_due + late_fee_per_day
      WHERE status = 'open' AND due_on < current_date`,
  );
  return rowCount;
}

export async function runLateFees() {
  const token = randomUUID();
  const reply = await redis.set(LOCK_KEY, token, 'PX', LOCK_MS, 'NX');
  if (reply !== 'OK') {
    console.info('late fees: another instance is on it');
    return;
  }
  try {
    const count = await applyLateFees();
    console.info(`late fees: ${count} invoices`);
  } finally {
    await redis.unlock(LOCK_KEY, token).catch((err) => console.warn('late fees unlock', err.message));
  }
}

cron.schedule(
  '30 2 * * *',
  () => {
    runLateFees().catch((err) => console.error('late fees', err));
  },
  { timezone: 'Etc/UTC' },
);
