import 'dotenv/config';
import { randomUUID } from 'node:crypto';
import { CronJob } from 'cron';
import dayjs from 'dayjs';
import nodemailer from 'nodemailer';
import { Pool } from 'pg';
import pino from 'pino';
import { createClient } from 'redis';
import { z } from 'zod';

const env = z
  .object({
    DATABASE_URL: z.string().url(),
    REDIS_URL: z.string().url(),
    SMTP_URL: z.string(),
    DUNNING_LOCK_TTL_SEC: z.coerce.number().int().min(600).default(1800),
    DUNNING_MAX_RUN_SEC: z.coerce.number().int().max(1200).default(600),
  })
  .refine((e) => e.DUNNING_LOCK_TTL_SEC >= 2 * e.DUNNING_MAX_RUN_SEC, 'lock must outlive the run')
  .parse(process.env);

const log = pino({ name: 'dunning' });
const pool = new Pool({ connectionString: env.DATABASE_URL, statement_timeout: 15_000, connectionTimeoutMillis: 5_000 });
const redis = createClient({ url: env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));

const mailer = nodemailer.createTransport(
  { url: env.SMTP_URL, connectionTimeout: 10_000, greetingTimeout: 10_000, socketTimeout: 20_000 },
  { from: 'billing@example.com' },
);

const LOCK_KEY = 'dunning:run';
const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end
return 0`;

interface Overdue {
  id: string;
  email: string;
  number: string;
  due_on: string;
  level: number;
}

async function remind(stopAt: number): Promise<number> {
  const { rows } = await pool.query<Overdue>(
    `SELECT i.id, c.email, i.number, i.due_on, i.dunning_level AS level
       FROM invoices i JOIN customers c ON c.id = i.customer_id
      WHERE i.paid_at IS NULL AND i.next_reminder_on <= current_date AND i.dunning_level < 3
      ORDER BY i.due_on`,
  );
  let sent = 0;
  for (const inv of rows) {
    if (Date.now() >= stopAt) {
      log.warn({ left: rows.length - sent }, 'time is up, the rest goes with the next run');
      break;
    }
    await mailer.sendMail({
      to: inv.email,
      subject: `Reminder ${inv.level + 1}: invoice ${inv.number}`,
      text: `Invoice ${inv.number} was due on ${dayjs(inv.due_on).format('DD.MM.YYYY')}.`,
    });
    await pool.query(
      'UPDATE invoices SET dunning_level = $2, next_reminder_on = current_date + 14 WHERE id = $1',
      [inv.id, inv.level + 1],
    );
    sent += 1;
  }
  return sent;
}

export async function dunningRun(): Promise<void> {
  const token = randomUUID();
  const startedAt = Date.now();
  const reply = await redis.set(LOCK_KEY, token, { NX: true, PX: env.DUNNING_LOCK_TTL_SEC });
  if (reply !== 'OK') {
    log.info('another instance is sending reminders');
    return;
  }
  try {
    const sent = await remind(startedAt + env.DUNNING_MAX_RUN_SEC * 1000);
    log.info({ sent, ms: Date.now() - startedAt }, 'dunning run finished');
  } finally {
    await redis.eval(UNLOCK, { keys: [LOCK_KEY], arguments: [token] });
  }
}

await redis.connect();
CronJob.from({
  cronTime: '0 15 8 * * 1-5',
  timeZone: 'Europe/Vienna',
  start: true,
  onTick: () => dunningRun().catch((err) => log.error({ err }, 'dunning run failed')),
});
