// app/api/cron/weekly-menu/route.ts: called hourly; the menu of a week is published once.
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const CLAIM_TTL_MS = 60_000;
const WORK_MS = 40_000;
const DONE_TTL_S = 21 * 24 * 3600;

// Safe to send twice: the owner of the claim is told so again.
const CLAIM = `
if redis.call('EXISTS', KEYS[2]) == 1 then return 'done' end
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] then return 'claimed' end
if owner then return 'busy' end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'claimed'`;

// Turns the claim into the mark of the week, if the claim is still ours.
const FINISH = `
if redis.call('GET', KEYS[2]) == ARGV[1] then return 1 end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[1], 'EX', ARGV[2])
redis.call('DEL', KEYS[1])
return 1`;

const GIVE_BACK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

function isoWeek(date: Date): string {
  const day = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()));
  day.setUTCDate(day.getUTCDate() + 4 - (day.getUTCDay() || 7));
  const firstOfYear = Date.UTC(day.getUTCFullYear(), 0, 1);
  const week = Math.ceil(((day.getTime() - firstOfYear) / 86_400_000 + 1) / 7);
  return `${day.getUTCFullYear()}-W${String(week).padStart(2, '0')}`;
}

async function publishMenu(week: string, signal: AbortSignal): Promise<void> {
  const top = await redis.zrange<string[]>('recipes:by-rating', 0, 6, { rev: true });
  if (top.length < 7) throw new Error(`only ${top.length} rated recipes`);

  signal.throwIfAborted();
  const res = await fetch(`${process.env.CMS_URL}/menus/${week}`, {
    method: 'PUT',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${process.env.CMS_TOKEN}`,
      'if-none-match': '*', // create only
    },
    body: JSON.stringify({ week, recipes: top.map(String) }),
    signal,
  });
  // 412: an earlier run got as far as the CMS but not as far as the mark.
  if (!res.ok && res.status !== 412) throw new Error(`cms answered ${res.status}`);
}

export async function GET(req: Request): Promise<Response> {
  if (req.headers.get('authorization') !== `Bearer ${process.env.CRON_SECRET}`) {
    return new Response('unauthorized', { status: 401 });
  }

  const week = isoWeek(new Date());
  const claimKey = `{menu:${week}}:claim`;
  const doneKey = `{menu:${week}}:done`;
  const token = crypto.randomUUID();
  const signal = AbortSignal.timeout(WORK_MS);

  const claim = await redis.eval<string[], string>(CLAIM, [claimKey, doneKey], [token, String(CLAIM_TTL_MS)]);
  if (claim !== 'claimed') return Response.json({ week, status: claim });

  try {
    await publishMenu(week, signal);
    const marked = await redis.eval<string[], number>(FINISH, [claimKey, doneKey], [token, String(DONE_TTL_S)]);
    return Response.json({ week, status: marked === 1 ? 'published' : 'published, mark left to the next run' });
  } catch (err) {
    console.error('weekly menu failed, next run tries again', week, err);
    await redis.eval(GIVE_BACK, [claimKey], [token]).catch(() => undefined);
    return Response.json({ week, status: 'failed' }, { status: 500 });
  }
}
