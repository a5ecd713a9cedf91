// app/api/cron/usage-rollup/route.ts
import { NextRequest, NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import { neon } from '@neondatabase/serverless';
import { nanoid } from 'nanoid';

export const runtime = 'nodejs';
export const dynamic = 'force-dynamic';
export const maxDuration = 60;

const redis = Redis.fromEnv();
const sql = neon(process.env.DATABASE_URL!);

const LOCK_KEY = 'cron:usage-rollup';
// seconds. Vercel kills us after maxDuration, keep this one above it
const LOCK_TTL = 90;

const UNLOCK = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  else
    return 0
  end
`;

function yesterday(): string {
  const d = new Date();
  d.setUTCDate(d.getUTCDate() - 1);
  return d.toISOString().slice(0, 10);
}

export async function GET(req: NextRequest) {
  if (!process.env.CRON_SECRET || req.headers.get('authorization') !== `Bearer ${process.env.CRON_SECRET}`) {
    return new NextResponse('Unauthorized', { status: 401 });
  }

  const day = req.nextUrl.searchParams.get('day') ?? yesterday();
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) {
    return NextResponse.json({ error: 'bad day' }, { status: 400 });
  }

  const token = nanoid();
  const locked = await redis.set(LOCK_KEY, token, { nx: true, ex: LOCK_TTL });
  if (locked !== 'OK') {
    return NextResponse.json({ ok: true, skipped: true });
  }

  try {
    // counts from scratch, running it again for the same day is fine
    const rows = await sql`
      insert into usage_daily (tenant_id, day, calls, tokens)
      select tenant_id, ${day}::date, count(*), coalesce(sum(tokens), 0)
        from api_calls
       where created_at >= ${day}::date
         and created_at < ${day}::date + interval '1 day'
       group by tenant_id
      on conflict (tenant_id, day)
      do update set calls = excluded.calls, tokens = excluded.tokens
      returning tenant_id
    `;
    return NextResponse.json({ ok: true, day, tenants: rows.length });
  } finally {
    await redis.eval(UNLOCK, [LOCK_KEY], [token]).catch((e) => {
      console.error('unlock failed, it will expire', e);
    });
  }
}
