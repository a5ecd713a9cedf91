// app/api/cron/rates/route.ts
import { neon } from '@neondatabase/serverless';
import { Redis } from '@upstash/redis';

export const dynamic = 'force-dynamic';
// Vercel kills the invocation after this many seconds, whatever it is doing.
export const maxDuration = 60;

const LOCK_KEY = 'cron:rates';
// Longer than an invocation can live, so the lock never runs out under somebody who still works.
const LOCK_TTL_SECONDS = 90;
const FETCH_BUDGET_MS = 40_000;

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

const redis = Redis.fromEnv();
const sql = neon(process.env.DATABASE_URL!);

interface Rate {
  pair: string;
  value: number;
  at: string;
}

async function refreshRates(signal: AbortSignal): Promise<number> {
  const res = await fetch('https://rates.example.com/v1/latest', { signal, cache: 'no-store' });
  if (!res.ok) throw new Error(`rates upstream: ${res.status}`);
  const { rates } = (await res.json()) as { rates: Rate[] };

  for (const rate of rates) {
    signal.throwIfAborted();
    // Older data never overwrites newer data, and a second delivery of the same cron event changes nothing.
    await sql`
      INSERT INTO rates (pair, value, quoted_at)
      VALUES (${rate.pair}, ${rate.value}, ${rate.at})
      ON CONFLICT (pair) DO UPDATE
        SET value = EXCLUDED.value, quoted_at = EXCLUDED.quoted_at
        WHERE rates.quoted_at < EXCLUDED.quoted_at`;
  }
  return rates.length;
}

export async function GET(request: Request): Promise<Response> {
  if (request.headers.get('authorization') !== `Bearer ${process.env.CRON_SECRET}`) {
    return new Response('unauthorized', { status: 401 });
  }

  const token = `run_${crypto.randomUUID()}`;
  const acquired = await redis.set(LOCK_KEY, token, { nx: true, ex: LOCK_TTL_SECONDS });
  if (acquired !== 'OK') {
    return Response.json({ skipped: true });
  }

  try {
    const count = await refreshRates(AbortSignal.timeout(FETCH_BUDGET_MS));
    return Response.json({ updated: count });
  } catch (err) {
    console.error('rates cron failed', err);
    return Response.json({ error: 'refresh failed' }, { status: 500 });
  } finally {
    await redis.eval(UNLOCK, [LOCK_KEY], [token]).catch((err: unknown) => {
      console.warn('could not release the cron lock, it expires by itself', err);
    });
  }
}
