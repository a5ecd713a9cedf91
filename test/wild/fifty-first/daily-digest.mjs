import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import cron from 'node-cron';
import nodemailer from 'nodemailer';
import pg from 'pg';
import { createClient } from 'redis';

const CLAIM_MS = 6 * 60 * 60 * 1000;

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.warn('redis', err.message));
await redis.connect();

const pool = new pg.Pool({ statement_timeout: 15_000 });
const mailer = nodemailer.createTransport(process.env.SMTP_URL);

async function claim(hour) {
  const reply = await redis.set(`digest:claimed:${hour}`, `${hostname()}:${randomUUID()}`, {
    condition: 'NX',
    expiration: { type: 'PX', value: CLAIM_MS },
  });
  return reply === 'OK';
}

async function digestFor(user, day) {
  const { rows } = await pool.query(
    `SELECT title, url FROM articles
      WHERE topic = ANY($1) AND published_at >= $2::date - 1 AND published_at < $2::date
      ORDER BY published_at`,
    [user.topics, day],
  );
  return rows;
}

export async function sendDigests(now = new Date()) {
  const day = now.toISOString().slice(0, 10);
  const hour = now.toISOString().slice(0, 13);
  if (!(await claim(hour))) return { day, sent: 0 };

  let sent = 0;
  const { rows: users } = await pool.query('SELECT id, email, topics FROM users WHERE digest = true');
  for (const user of users) {
    try {
      const articles = await digestFor(user, day);
      if (articles.length === 0) continue;

      const noted = await pool.query(
        'INSERT INTO digest_sent (day, user_id) VALUES ($1, $2) ON CONFLICT (day, user_id) DO NOTHING',
        [day, user.id],
      );
      if (noted.rowCount === 0) continue;

      await mailer.sendMail({
        to: user.email,
        subject: `Your digest for ${day}`,
        text: articles.map((a) => `${a.title}\n${a.url}`).join('\n\n'),
      });
      sent += 1;
    } catch (err) {
      console.error('digest', day, user.id, err);
    }
  }
  return { day, sent };
}

cron.schedule(
  '0 7,8,9 * * *',
  () => {
    sendDigests()
      .then(({ day, sent }) => console.info('digest', day, sent))
      .catch((err) => console.error('digest run', err));
  },
  { timezone: 'Etc/UTC' },
);
