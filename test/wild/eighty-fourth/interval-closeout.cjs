const os = require('os');
const cron = require('node-cron');
const Redis = require('ioredis');
const { Pool } = require('pg');

const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 2 });
redis.on('error', (e) => console.error('redis', e.message));
const pool = new Pool({ max: 2 });

const STEP = 15 * 60 * 1000;

// all open quarter hours of the last two days that ended before `end`
async function openIntervals(end) {
  const { rows } = await pool.query(
    `SELECT starts_at FROM intervals
      WHERE closed_at IS NULL
        AND starts_at >= $1::timestamptz - interval '2 days'
        AND starts_at + interval '15 minutes' <= $1::timestamptz
      ORDER BY starts_at`,
    [end]
  );
  return rows.map((r) => r.starts_at);
}

async function closeInterval(start) {
  const c = await pool.connect();
  try {
    await c.query('BEGIN');
    const own = await c.query('SELECT 1 FROM intervals WHERE starts_at=$1 AND closed_at IS NULL FOR UPDATE', [start]);
    if (own.rowCount === 1) {
      await c.query(
        `INSERT INTO meter_totals (meter_id, starts_at, kwh)
         SELECT meter_id, $1::timestamptz, sum(kwh) FROM readings
          WHERE read_at >= $1::timestamptz AND read_at < $1::timestamptz + interval '15 minutes'
          GROUP BY meter_id
         ON CONFLICT (meter_id, starts_at) DO UPDATE SET kwh = EXCLUDED.kwh`,
        [start]
      );
      await c.query('UPDATE intervals SET closed_at = now() WHERE starts_at=$1', [start]);
    }
    await c.query('COMMIT');
  } catch (e) {
    await c.query('ROLLBACK').catch(() => {});
    throw e;
  } finally {
    c.release();
  }
}

async function tick() {
  const slot = Math.floor(Date.now() / STEP);
  const got = await redis.set(`closeout:${slot}`, os.hostname(), 'EX', 3600, 'NX');
  if (got !== 'OK') return;
  const todo = await openIntervals(new Date(slot * STEP));
  for (const start of todo) {
    try {
      await closeInterval(start);
      console.log('closed', start.toISOString());
    } catch (e) {
      console.error('not closed', start.toISOString(), e.message);
    }
  }
}

// two minutes past, so that head-ends have delivered; runs on every node
cron.schedule('2,17,32,47 * * * *', () => {
  tick().catch((e) => console.error('closeout', e.message));
});
