// app/api/cron/usage-rollup/route.ts
import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { neon } from '@neondatabase/serverless';

export const dynamic = 'force-dynamic';
// Vercel kills the function after this many seconds, so it never outlives the lock.
export const maxDuration = 60;
const LOCK_SECONDS = 120;
const LOCK_KEY = 'cron:usage-rollup';

// No automatic retries: a repeated SET NX would see our own first attempt and report "taken".
const redis = Redis.fromEnv({ retry: false });
const sql = neon(process.env.DATABASE_URL!);

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

async function release(token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, [LOCK_KEY], [token]);
  } catch (err) {
    console.warn(`could not release ${LOCK_KEY}; it expires in at most ${LOCK_SECONDS} s`, err);
  }
}

export async function GET(request: Request): Promise<Response> {
  const secret = process.env.CRON_SECRET;
  if (!secret || request.headers.get('authorization') !== `Bearer ${secret}`) {
    return new Response('unauthorized', { status: 401 });
  }

  const token = randomUUID();
  let reply: unknown;
  try {
    reply = await redis.set(LOCK_KEY, token, { nx: true, ex: LOCK_SECONDS });
  } catch (err) {
    console.error('lock not available', err);
    await release(token);
    return Response.json({ error: 'lock not available' }, { status: 503 });
  }
  if (reply !== 'OK') {
    return Response.json({ skipped: true });
  }

  try {
    // Recomputes whole days, so that running it again gives the same rows. The lock only
    // saves us from paying for the same scan twice when Vercel delivers the event twice.
    const rows = await sql`
      insert into usage_daily (account_id, day, requests, bytes)
      select account_id, date_trunc('day', at)::date, count(*), sum(bytes)
        from usage_events
       where at >= date_trunc('day', now()) - interval '1 day'
       group by 1, 2
      on conflict (account_id, day) do update
         set requests = greatest(usage_daily.requests, excluded.requests),
             bytes = greatest(usage_daily.bytes, excluded.bytes)
      returning account_id`;
    return Response.json({ updated: rows.length });
  } catch (err) {
    console.error('usage rollup failed', err);
    return Response.json({ error: 'rollup failed' }, { status: 500 });
  } finally {
    await release(token);
  }
}
