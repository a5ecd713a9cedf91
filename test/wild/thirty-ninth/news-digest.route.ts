// app/api/cron/digest/route.ts, called by Vercel Cron every minute
import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { NextResponse, type NextRequest } from 'next/server';
import nodemailer from 'nodemailer';
import { Pool } from 'pg';

export const dynamic = 'force-dynamic';
export const maxDuration = 300;

const redis = Redis.fromEnv();
const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 2 });
const mailer = nodemailer.createTransport(process.env.SMTP_URL!);

const LOCK_KEY = 'cron:digest';
const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

type Reader = { id: number; email: string; topics: string[] };
type Story = { title: string; url: string };

async function storiesFor(topics: string[]): Promise<Story[]> {
  const { rows } = await pool.query<Story>(
    `SELECT title, url FROM stories
      WHERE topic = ANY($1) AND published_at > now() - interval '1 day'
      ORDER BY score DESC LIMIT 12`,
    [topics],
  );
  return rows;
}

async function sendDigest(reader: Reader): Promise<void> {
  const stories = await storiesFor(reader.topics);
  if (stories.length > 0) {
    await mailer.sendMail({
      from: 'The Courier <digest@courier.example>',
      to: reader.email,
      subject: `Your news of the day: ${stories[0].title}`,
      text: stories.map((s) => `${s.title}\n${s.url}`).join('\n\n'),
    });
  }
  await pool.query(
    `UPDATE readers SET digest_due_at = now() + interval '1 day' WHERE id = $1`,
    [reader.id],
  );
}

export async function GET(req: NextRequest) {
  if (req.headers.get('authorization') !== `Bearer ${process.env.CRON_SECRET}`) {
    return new NextResponse('unauthorized', { status: 401 });
  }

  // the previous call may still be busy
  const token = randomUUID();
  const locked = await redis.set(LOCK_KEY, token, { nx: true, ex: 60 });
  if (locked !== 'OK') return NextResponse.json({ skipped: true });

  try {
    const { rows: readers } = await pool.query<Reader>(
      `SELECT id, email, topics FROM readers
        WHERE digest_due_at <= now() ORDER BY digest_due_at LIMIT 1000`,
    );
    let sent = 0;
    for (const reader of readers) {
      try {
        await sendDigest(reader);
        sent++;
      } catch (err) {
        console.error('digest for reader', reader.id, err);
      }
    }
    return NextResponse.json({ sent });
  } finally {
    await redis.eval(UNLOCK, [LOCK_KEY], [token]);
  }
}
