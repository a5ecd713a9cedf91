import { Redis } from '@upstash/redis';
import { randomUUID } from 'node:crypto';

// Called by the platform cron every ten minutes, the platform kills us after maxDuration seconds.
export const maxDuration = 60;
export const dynamic = 'force-dynamic';

const redis = Redis.fromEnv();

const BUDGET_MS = 40_000;
const GUARD_MS = 150_000;
const TWO_DAYS_S = 172_800;

const STEP_ASIDE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

interface Outlook {
  region: string;
  kp: number;
  text: string;
}

async function outlooks(): Promise<Outlook[]> {
  const res = await fetch(`${process.env.AURORA_API}/outlook`, { signal: AbortSignal.timeout(8_000) });
  if (!res.ok) throw new Error(`aurora api answered ${res.status}`);
  return (await res.json()) as Outlook[];
}

// push provider drops a second message with the same key for 48 h
async function push(evening: string, outlook: Outlook): Promise<void> {
  const res = await fetch(`${process.env.PUSH_URL}/topics/${outlook.region}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${process.env.PUSH_TOKEN}`,
      'content-type': 'application/json',
      'idempotency-key': `aurora:${evening}:${outlook.region}`,
    },
    body: JSON.stringify({ title: `Kp ${outlook.kp}`, body: outlook.text }),
    signal: AbortSignal.timeout(6_000),
  });
  if (!res.ok) throw new Error(`push ${outlook.region}: ${res.status}`);
}

export async function GET(request: Request): Promise<Response> {
  if (request.headers.get('authorization') !== `Bearer ${process.env.CRON_SECRET}`) {
    return new Response('no', { status: 401 });
  }

  const began = Date.now();
  const now = new Date(began);
  if (now.getUTCHours() < 17) return Response.json({ skipped: 'daylight' });

  const evening = now.toISOString().slice(0, 10);
  const guard = `aurora:${evening}:guard`;
  const told = `aurora:${evening}:told`;
  const me = randomUUID();

  const won = await redis.set(guard, me, { nx: true, px: GUARD_MS });
  if (won === null) return Response.json({ skipped: 'busy' });

  try {
    if (await redis.exists(told)) return Response.json({ skipped: 'told already' });

    const visible = (await outlooks()).filter((o) => o.kp >= 4);
    if (visible.length === 0) return Response.json({ told: 0 });

    for (const outlook of visible) {
      if (Date.now() - began > BUDGET_MS) {
        return Response.json({ error: 'out of time, next run goes on' }, { status: 503 });
      }
      await push(evening, outlook);
    }

    await redis.set(told, visible.length, { ex: TWO_DAYS_S });
    return Response.json({ told: visible.length });
  } finally {
    await redis.eval(STEP_ASIDE, [guard], [me]);
  }
}
