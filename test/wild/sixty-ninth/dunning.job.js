const { randomUUID } = require('crypto');
const Redis = require('ioredis');
const { Pool } = require('pg');
const cron = require('node-cron');

// All the keys of this service live under billing: on the shared Redis.
const redis = new Redis({
  host: process.env.REDIS_HOST || '127.0.0.1',
  port: Number(process.env.REDIS_PORT || 6379),
  password: process.env.REDIS_PASSWORD || undefined,
  keyPrefix: 'billing:',
});
redis.on('error', (err) => console.error('dunning: redis', err.message));

const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 20000 });

const LOCK_TTL_MS = 30 * 60 * 1000;
const BUDGET_MS = 20 * 60 * 1000;

const UNLOCK = `
  local key = ARGV[1]
  local token = ARGV[2]
  if redis.call('GET', key) == token then
    return redis.call('DEL', key)
  end
  return 0
`;

async function acquire(name) {
  const lock = { key: `lock:${name}`, token: randomUUID(), startedAt: Date.now() };
  const res = await redis.set(lock.key, lock.token, 'PX', LOCK_TTL_MS, 'NX');
  return res === 'OK' ? lock : null;
}

async function release(lock) {
  try {
    await redis.eval(UNLOCK, 0, lock.key, lock.token);
  } catch (err) {
    console.error('dunning: release failed', err.message);
  }
}

async function queueNotice(customerId, level, data) {
  // unique (customer_id, level, period), so nobody is dunned twice; the mailer picks up queued rows
  const { rowCount } = await pool.query(
    `INSERT INTO dunning_notices (customer_id, level, period, status, data)
     VALUES ($1, $2, to_char(now(), 'YYYY-MM'), 'queued', $3)
     ON CONFLICT DO NOTHING`,
    [customerId, level, JSON.stringify(data)],
  );
  return rowCount === 1;
}

function levelFor(daysLate) {
  if (daysLate >= 45) return 3;
  if (daysLate >= 21) return 2;
  return 1;
}

async function runDunning({ region }) {
  const lock = await acquire(`dunning:${region}`);
  if (!lock) {
    return { skipped: true, sent: 0 };
  }
  let sent = 0;
  try {
    const { rows } = await pool.query(
      `SELECT c.id, c.email, c.name, max(current_date - i.due_on) AS days_late, sum(i.open_cents) AS open_cents
         FROM invoices i JOIN customers c ON c.id = i.customer_id
        WHERE c.region = $1 AND i.open_cents > 0 AND i.due_on < current_date - 7
        GROUP BY c.id, c.email, c.name`,
      [region],
    );
    for (const row of rows) {
      if (Date.now() - lock.startedAt > BUDGET_MS) {
        console.warn(`dunning: out of time in ${region}, the rest goes with the next run`);
        break;
      }
      const level = levelFor(row.days_late);
      const amount = (Number(row.open_cents) / 100).toFixed(2);
      if (await queueNotice(row.id, level, { to: row.email, name: row.name, amount })) sent++;
    }
    return { skipped: false, sent };
  } finally {
    await release(lock);
  }
}

if (require.main === module) {
  cron.schedule('*/15 8-17 * * 1-5', async () => {
    for (const region of (process.env.REGIONS || 'de,at,ch').split(',')) {
      try {
        const res = await runDunning({ region });
        console.log('dunning:', region, JSON.stringify(res));
      } catch (err) {
        console.error('dunning:', region, err);
      }
    }
  });
}

module.exports = { runDunning, acquire, release, redis };
