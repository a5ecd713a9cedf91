import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { CronJob } from 'cron';
import dayjs from 'dayjs';
import nodemailer from 'nodemailer';
import { Pool } from 'pg';
import pino from 'pino';

const log = pino({ name: 'morning-digest' });
const redis = Redis.fromEnv();

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 5_000,
  statement_timeout: 20_000,
  query_timeout: 22_000,
});

const mailer = nodemailer.createTransport({
  host: process.env.SMTP_HOST,
  port: 587,
  auth: { user: process.env.SMTP_USER, pass: process.env.SMTP_PASSWORD },
  connectionTimeout: 10_000,
  greetingTimeout: 10_000,
  socketTimeout: 30_000,
});

const LOCK_KEY = 'cron:morning-digest';
const LOCK_SECONDS = 600;
const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

interface Incident {
  id: number;
  title: string;
  severity: string;
  opened_at: Date;
}

async function openIncidents(): Promise<Incident[]> {
  const { rows } = await pool.query<Incident>(
    `SELECT id, title, severity, opened_at FROM incidents
      WHERE closed_at IS NULL ORDER BY severity, opened_at LIMIT 50`,
  );
  return rows;
}

async function sendDigest(): Promise<number> {
  const incidents = await openIncidents();
  const day = dayjs().format('dddd, D MMMM');
  const text = incidents.length
    ? incidents.map((i) => `[${i.severity}] #${i.id} ${i.title} (since ${dayjs(i.opened_at).format('D MMM HH:mm')})`).join('\n')
    : 'Nothing open. Have a quiet day.';
  await mailer.sendMail({
    from: 'Incident desk <desk@hollowpine.example>',
    to: process.env.DIGEST_TO,
    subject: `Open incidents, ${day}`,
    text,
  });
  return incidents.length;
}

/**
 * The schedule runs on every machine of the app, in four regions. Customers
 * get exactly one digest a morning: the machine that has the lock sends it,
 * the others find it taken and do nothing.
 */
async function tick(): Promise<void> {
  const token = randomUUID();
  const got = await redis.set(LOCK_KEY, token, { nx: true, ex: LOCK_SECONDS });
  if (got !== 'OK') {
    log.info('digest is sent by another machine');
    return;
  }
  try {
    const count = await sendDigest();
    log.info({ count }, 'digest sent');
  } catch (err) {
    log.error({ err }, 'digest failed');
  } finally {
    await redis.eval(RELEASE, [LOCK_KEY], [token]).catch((err: Error) => log.warn({ err }, 'digest unlock'));
  }
}

export const job = CronJob.from({
  cronTime: '0 0 7 * * *',
  onTick: () => tick().catch((err) => log.error({ err }, 'digest tick')),
  timeZone: 'Europe/Amsterdam',
  start: true,
});
