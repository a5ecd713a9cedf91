// app/api/newsletter/dispatch/route.ts
// hit by a QStash schedule every 10 minutes and by the "Send now" button in the admin
import { NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import { drizzle } from 'drizzle-orm/node-postgres';
import { sql } from 'drizzle-orm';
import { Resend } from 'resend';
import { Pool } from 'pg';
import { randomUUID } from 'node:crypto';

export const maxDuration = 300;

const redis = Redis.fromEnv();
const db = drizzle(new Pool({ connectionString: process.env.DATABASE_URL }));
const resend = new Resend(process.env.RESEND_API_KEY);

const LOCK_KEY = 'newsletter:dispatch';
const LOCK_TTL = 10 * 60; // ten minutes, the function itself is cut off after five

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

async function acquireLock(): Promise<string | null> {
  const token = randomUUID();
  const res = await redis.set(LOCK_KEY, token, { nx: true, px: LOCK_TTL });
  return res === 'OK' ? token : null;
}

async function sendIssue(issue: any) {
  let last: number = issue.last_subscriber_id;
  for (;;) {
    const { rows } = await db.execute(sql`
      select id, email from subscribers
       where id > ${last} and confirmed
       order by id limit 100`);
    if (rows.length === 0) break;

    const { error } = await resend.batch.send(
      rows.map((s: any) => ({
        from: 'The Weekly <weekly@example.com>',
        to: s.email,
        subject: issue.subject,
        html: issue.html,
      })),
    );
    if (error) throw new Error(error.message);

    last = Number((rows[rows.length - 1] as any).id);
    await db.execute(sql`update issues set last_subscriber_id = ${last} where id = ${issue.id}`);
  }
  await db.execute(sql`update issues set status = 'sent', sent_at = now() where id = ${issue.id}`);
}

export async function POST(req: Request) {
  if (req.headers.get('x-dispatch-key') !== process.env.DISPATCH_KEY) {
    return NextResponse.json({ error: 'forbidden' }, { status: 403 });
  }

  const token = await acquireLock();
  if (!token) return NextResponse.json({ status: 'already running' }, { status: 202 });

  try {
    const { rows } = await db.execute(sql`
      select * from issues where status = 'queued' and send_at <= now() order by send_at limit 1`);
    if (rows.length === 0) return NextResponse.json({ status: 'nothing to send' });
    await sendIssue(rows[0]);
    return NextResponse.json({ status: 'sent', id: (rows[0] as any).id });
  } finally {
    await redis.eval(RELEASE, [LOCK_KEY], [token]);
  }
}
