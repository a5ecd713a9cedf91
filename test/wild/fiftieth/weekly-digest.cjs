'use strict';

const crypto = require('crypto');
const cron = require('node-cron');
const axios = require('axios');
const Redis = require('ioredis');
const { Pool } = require('pg');

const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 3 });
redis.on('error', (err) => console.error('[redis]', err.message));
const pool = new Pool({ connectionTimeoutMillis: 5000, statement_timeout: 10000, query_timeout: 12000 });

const KEY = 'cron:weekly-digest';
const TTL_MS = 25 * 60 * 1000;
const BUDGET_MS = 20 * 60 * 1000;

const UNLOCK = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  else
    return 0
  end`;

function isoWeek(d) {
  const t = new Date(Date.UTC(d.getUTCFullYear(), d.getUTCMonth(), d.getUTCDate()));
  t.setUTCDate(t.getUTCDate() + 4 - (t.getUTCDay() || 7));
  const start = Date.UTC(t.getUTCFullYear(), 0, 1);
  const week = Math.ceil(((t - start) / 86400000 + 1) / 7);
  return t.getUTCFullYear() + '-W' + String(week).padStart(2, '0');
}

async function sendOne(user, week) {
  const claim = await pool.query(
    'INSERT INTO digest_sends (user_id, week) VALUES ($1, $2) ON CONFLICT (user_id, week) DO NOTHING',
    [user.id, week]
  );
  if (claim.rowCount === 0) return false;
  try {
    await axios.post(
      process.env.MAIL_API + '/send',
      { to: user.email, template: 'weekly-digest', vars: { name: user.name, week } },
      { timeout: 15000 }
    );
    return true;
  } catch (err) {
    const status = err.response && err.response.status;
    console.error('digest for user %s failed: %s', user.id, status || err.message);
    if (status && status < 500) {
      await pool.query('DELETE FROM digest_sends WHERE user_id = $1 AND week = $2', [user.id, week]);
    }
    return false;
  }
}

async function run() {
  const token = crypto.randomBytes(16).toString('hex');
  const startedAt = Date.now();
  const ok = await redis.set(KEY, token, 'PX', TTL_MS, 'NX');
  if (ok !== 'OK') {
    console.log('digest: already running on another host');
    return;
  }

  const week = isoWeek(new Date());
  let sent = 0;
  try {
    const { rows } = await pool.query(
      `SELECT u.id, u.email, u.name FROM users u
        WHERE u.digest_enabled
          AND NOT EXISTS (SELECT 1 FROM digest_sends s WHERE s.user_id = u.id AND s.week = $1)
        ORDER BY u.id`,
      [week]
    );
    for (const user of rows) {
      if (Date.now() - startedAt > BUDGET_MS) {
        console.warn('digest: budget used up, the rest goes out with the next tick');
        break;
      }
      if (await sendOne(user, week)) sent++;
    }
  } finally {
    await redis.eval(UNLOCK, 1, KEY, token).catch((err) => console.error('digest: unlock', err.message));
  }
  console.log('digest %s: %d mails', week, sent);
}

// Mondays 07:00, then every half hour until 10:30 for leftovers
cron.schedule('*/30 7-10 * * 1', () => {
  run().catch((err) => console.error('digest failed', err));
}, { timezone: 'Europe/Berlin' });
