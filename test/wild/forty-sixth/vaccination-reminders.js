import os from 'node:os';
import cron from 'node-cron';
import { createClient } from 'redis';
import pg from 'pg';
import dayjs from 'dayjs';
import utc from 'dayjs/plugin/utc.js';
import timezone from 'dayjs/plugin/timezone.js';
import pino from 'pino';
import { sendSms } from './sms-gateway.js';

dayjs.extend(utc);
dayjs.extend(timezone);

const log = pino({ name: 'vaccination-reminders' });
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.warn({ err }, 'redis'));

const ZONE = 'Europe/Oslo';
const CLAIM_TTL_SECONDS = 36 * 60 * 60;

/*
 * All clinic servers fire at 09:00 Oslo time. One run a day at most, whichever
 * host is first. The claim stays until it expires: a host whose timer is late
 * must find the day taken. A run that dies is not repeated the same day; the
 * pets it left are still due in the next day's query.
 */
async function claimDay(day) {
  const reply = await redis.set(`vaccination-reminders:${day}`, os.hostname(), {
    NX: true,
    EX: CLAIM_TTL_SECONDS,
  });
  return reply === 'OK';
}

async function remindOwners(day) {
  const due = await pool.query(
    `SELECT v.id, p.name AS pet, o.phone
       FROM vaccinations v
       JOIN pets p ON p.id = v.pet_id
       JOIN owners o ON o.id = p.owner_id
      WHERE v.due_on <= $1::date + 14 AND v.reminded_at IS NULL AND p.deceased = false`,
    [day],
  );
  let sent = 0;
  for (const row of due.rows) {
    // An owner would rather miss a reminder than get two: mark, then send.
    const mark = await pool.query(
      'UPDATE vaccinations SET reminded_at = now() WHERE id = $1 AND reminded_at IS NULL',
      [row.id],
    );
    if (mark.rowCount !== 1) continue;
    try {
      await sendSms(row.phone, `${row.pet} is due for a vaccination. Call us to book.`);
      sent += 1;
    } catch (err) {
      log.error({ err, vaccination: row.id }, 'sms failed');
    }
  }
  return sent;
}

async function run() {
  const day = dayjs().tz(ZONE).format('YYYY-MM-DD');
  let mine;
  try {
    mine = await claimDay(day);
  } catch (err) {
    log.error({ err, day }, 'could not claim the day, leaving it to the other hosts');
    return;
  }
  if (!mine) {
    log.debug({ day }, 'day already claimed');
    return;
  }
  try {
    const sent = await remindOwners(day);
    log.info({ day, sent }, 'reminders done');
  } catch (err) {
    log.error({ err, day }, 'reminders broke off');
  }
}

await redis.connect();
cron.schedule('0 9 * * *', run, { timezone: ZONE });
