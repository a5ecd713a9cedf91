// nightly 6 of 49, runs on all pods
const cron = require('node-cron');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { randomInt } = require('crypto');
const { Pool } = require('pg');

const TZ = 'Europe/Vienna';
const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 1 });
redis.on('error', (e) => console.error('redis', e.message));
const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 3, connectionTimeoutMillis: 5000 });
pool.on('error', (e) => console.error('pg', e.message));

const redlock = new Redlock([redis], { retryCount: 0 });
redlock.on('clientError', (e) => console.error('redlock', e.message));

const today = () => new Intl.DateTimeFormat('sv-SE', { timeZone: TZ }).format(new Date());

function sixOf49() {
  const s = new Set();
  while (s.size < 6) s.add(randomInt(1, 50));
  return [...s].sort((a, b) => a - b);
}

async function isDone(day) {
  const { rowCount } = await pool.query('SELECT 1 FROM draws WHERE draw_date = $1', [day]);
  return rowCount > 0;
}

// draws.draw_date is the primary key; mails go out from the outbox table
async function draw(day) {
  const c = await pool.connect();
  let bad;
  try {
    await c.query('BEGIN');
    await c.query("SET LOCAL statement_timeout = '5s'");
    const ins = await c.query(
      'INSERT INTO draws (draw_date, numbers) VALUES ($1, $2) ON CONFLICT (draw_date) DO NOTHING RETURNING numbers',
      [day, sixOf49()],
    );
    if (ins.rowCount === 1) {
      await c.query("INSERT INTO outbox (topic, payload) VALUES ('draw.done', $1)", [
        JSON.stringify({ day, numbers: ins.rows[0].numbers }),
      ]);
    }
    await c.query('COMMIT');
    return ins.rowCount === 1 ? ins.rows[0].numbers : null;
  } catch (e) {
    await c.query('ROLLBACK').catch((e2) => (bad = e2));
    throw e;
  } finally {
    c.release(bad);
  }
}

async function tick() {
  const day = today();
  if (await isDone(day)) return;

  let lock;
  try {
    lock = await redlock.lock(`draw:${day}`, 30000);
  } catch (e) {
    console.log('no lock for', day, '-', e.message);
    return;
  }
  try {
    const n = await draw(day);
    console.log(n ? `drawn ${day}: ${n.join(' ')}` : `already drawn ${day}`);
  } finally {
    await lock.unlock().catch((e) => console.log('unlock', e.message));
  }
}

// every 5 min between 20:00 and 20:55, first one wins
cron.schedule('*/5 20 * * *', () => tick().catch((e) => console.error('DRAW FAILED', e)), { timezone: TZ });
console.log('draw cron ready');
