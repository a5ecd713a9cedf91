import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

// app/api/cron/daily-digest/route.ts, scheduled once a day at 06:00 UTC
const redis = Redis.fromEnv();

export const maxDuration = 300;

// Far longer than one day, so that a claim outlives every late retry of its day.
const CLAIM_SECONDS = 3 * 24 * 60 * 60;

/**
 * Claims the digest of a day. The claim is never given back: the digest goes out
 * at most once per day. If the function crashes half-way, the rest of that
 * day's mails is not sent, which we prefer to sending them twice.
 */
async function claimDay(day: string): Promise<boolean> {
  const key = `cron:daily-digest:${day}`;
  const token = randomUUID();
  const reply = await redis.set(key, token, { nx: true, ex: CLAIM_SECONDS });
  if (reply === 'OK') return true;
  // The HTTP client may have repeated a request whose answer got lost. In that
  // case the key already carries the token of this very invocation.
  return (await redis.get<string>(key)) === token;
}

async function sendDigest(day: string): Promise<number> {
  const response = await fetch(`${process.env.MAILER_URL}/digests`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${process.env.MAILER_TOKEN}`,
    },
    body: JSON.stringify({ day }),
  });
  if (!response.ok) throw new Error(`Mailer answered ${response.status}`);
  const { queued } = (await response.json()) as { queued: number };
  return queued;
}

export async function GET(req: Request): Promise<Response> {
  const secret = process.env.CRON_SECRET;
  if (!secret || req.headers.get('authorization') !== `Bearer ${secret}`) {
    return new Response('Unauthorized', { status: 401 });
  }

  const day = new Date().toISOString().slice(0, 10);
  if (!(await claimDay(day))) {
    return Response.json({ day, skipped: true });
  }

  try {
    const queued = await sendDigest(day);
    return Response.json({ day, queued });
  } catch (err) {
    // Deliberately no second attempt: we cannot know how much was sent.
    console.error(`Daily digest ${day} failed, manual follow-up needed`, err);
    return Response.json({ day, error: 'digest failed' }, { status: 500 });
  }
}
