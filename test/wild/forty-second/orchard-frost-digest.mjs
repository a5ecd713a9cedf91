import os from 'node:os';
import cron from 'node-cron';
import nodemailer from 'nodemailer';
import pg from 'pg';
import { createClient } from 'redis';

// Runs on every node of the web tier (we have no separate scheduler box).
// Growers get one mail per morning. A second mail annoys them a lot more than
// a missing one, and ops can always re-send by hand with `frost-digest --force`.

const ZONE = 'Europe/Rome';
const CLAIM_SECONDS = 48 * 3600;

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (e) => console.error('[frost] redis', e.message));

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const mailer = nodemailer.createTransport(process.env.SMTP_URL);

const isoDay = new Intl.DateTimeFormat('en-CA', {
  timeZone: ZONE,
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
});

async function claimDay(day) {
  const reply = await redis.set(`frost-digest:${day}`, `${os.hostname()}:${process.pid}`, {
    NX: true,
    EX: CLAIM_SECONDS,
  });
  return reply === 'OK';
}

async function sendDigest(day) {
  const { rows } = await pool.query(
    `SELECT g.email, g.name, array_agg(o.name || ': ' || f.min_temp || '°C' ORDER BY f.min_temp) AS lines
       FROM forecasts f
       JOIN orchards o ON o.id = f.orchard_id
       JOIN growers g ON g.id = o.grower_id
      WHERE f.day = $1 AND f.min_temp < 1
      GROUP BY g.email, g.name`,
    [day],
  );
  let failed = 0;
  for (const row of rows) {
    try {
      await mailer.sendMail({
        from: 'frost@orchards.example',
        to: row.email,
        subject: `Frost warning for ${day}`,
        text: `Hello ${row.name},\n\n${row.lines.join('\n')}\n`,
      });
    } catch (err) {
      failed += 1;
      console.error('[frost] mail failed', row.email, err.message);
    }
  }
  console.log(`[frost] ${day}: ${rows.length - failed} sent, ${failed} failed`);
}

async function tick() {
  const day = isoDay.format(new Date());
  try {
    if (!(await claimDay(day))) {
      console.log(`[frost] ${day} is done by another node`);
      return;
    }
    await sendDigest(day);
  } catch (err) {
    // claim stays; on-call decides about a re-send
    console.error(`[frost] ${day} needs attention`, err);
  }
}

await redis.connect();
cron.schedule('30 5 * * *', tick, { timezone: ZONE });
