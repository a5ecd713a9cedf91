'use strict';

require('dotenv').config();
const os = require('node:os');
const cron = require('node-cron');
const Redis = require('ioredis');
const nodemailer = require('nodemailer');
const { Pool } = require('pg');
const winston = require('winston');

const ZONE = 'Europe/Vienna';

const log = winston.createLogger({
  level: process.env.LOG_LEVEL || 'info',
  format: winston.format.json(),
  transports: [new winston.transports.Console()],
});
const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool({ connectionString: process.env.DATABASE_URL });
const mailer = nodemailer.createTransport(process.env.SMTP_URL);

function localDay(now = new Date()) {
  return now.toLocaleDateString('sv-SE', { timeZone: ZONE });
}

/**
 * True on exactly one machine per day. The entry carries the host only so that
 * support can see who sent the mail; nobody reads it back.
 */
async function claimDay(day) {
  const reply = await redis.set(`briefing:sent:${day}`, os.hostname(), 'EX', 36 * 3600, 'NX');
  return reply === 'OK';
}

async function wardSummary() {
  const { rows } = await pool.query(
    `select w.name, count(*) filter (where b.occupied) as occupied, count(*) as beds
       from wards w join beds b on b.ward_id = w.id group by w.name order by w.name`,
  );
  return rows.map((r) => `${r.name}: ${r.occupied}/${r.beds}`).join('\n');
}

async function recipients() {
  const { rows } = await pool.query('select email from staff where wants_briefing and active');
  return rows.map((r) => r.email);
}

async function briefing() {
  const day = localDay();
  if (!(await claimDay(day))) {
    log.debug('briefing of the day belongs to another host', { day });
    return;
  }

  // From here on there is no second try. A briefing that arrives twice got us
  // a complaint from the works council; one that is missing is printed by hand.
  const text = await wardSummary();
  let sent = 0;
  for (const to of await recipients()) {
    try {
      await mailer.sendMail({
        from: 'beds@klinikum.example',
        to,
        subject: `Bed occupancy ${day}`,
        text,
      });
      sent += 1;
    } catch (err) {
      log.error('mail refused', { to, message: err.message });
    }
  }
  log.info('briefing sent', { day, sent, host: os.hostname() });
}

cron.schedule(
  '30 6 * * *',
  () => {
    briefing().catch((err) => log.error('briefing failed, not repeated', { message: err.message }));
  },
  { timezone: ZONE },
);

process.once('SIGTERM', async () => {
  await Promise.allSettled([redis.quit(), pool.end()]);
  process.exit(0);
});
