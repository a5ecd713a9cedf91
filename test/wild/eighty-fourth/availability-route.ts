// app/api/availability/[isbn]/route.ts
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();
const FRESH_MS = 20_000;
const KEEP_MS = 10 * 60_000;
const LOCK_MS = 8_000;

type Entry = { at: number; copies: { branch: string; free: number }[] };

const PUBLISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
redis.call('DEL', KEYS[1])
return 1`;
const DROP = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms));

async function load(isbn: string): Promise<Entry> {
  const at = Date.now();
  const res = await fetch(`${process.env.LMS_URL}/holdings/${isbn}`, {
    signal: AbortSignal.timeout(5_000),
    cache: 'no-store',
  });
  if (!res.ok) throw new Error(`lms ${res.status}`);
  return { at, copies: await res.json() };
}

async function get(isbn: string): Promise<Entry> {
  const data = `{av:${isbn}}:data`;
  const lock = `{av:${isbn}}:lock`;

  const hit = await redis.get<Entry>(data);
  if (hit && Date.now() - hit.at < FRESH_MS) return hit;

  const token = crypto.randomUUID();
  const got = await redis.set(lock, token, { nx: true, px: LOCK_MS });
  if (got === 'OK') {
    let entry: Entry;
    try {
      entry = await load(isbn);
    } catch (e) {
      await redis.eval(DROP, [lock], [token]).catch(() => {});
      if (hit) return hit;
      throw e;
    }
    await redis
      .eval(PUBLISH, [lock, data], [token, JSON.stringify(entry), String(KEEP_MS)])
      .catch((e) => console.error('publish', isbn, e));
    return entry;
  }

  if (hit) return hit; // old one is good enough while somebody refreshes
  for (let i = 0; i < 12; i++) {
    await sleep(400);
    const now = await redis.get<Entry>(data);
    if (now) return now;
  }
  throw new Error('no answer yet');
}

export async function GET(_req: Request, ctx: { params: Promise<{ isbn: string }> }) {
  const { isbn } = await ctx.params;
  if (!/^\d{9}[\dX]$|^\d{13}$/.test(isbn)) return new Response('bad isbn', { status: 400 });
  try {
    const entry = await get(isbn);
    return Response.json(entry.copies, { headers: { age: String(Math.round((Date.now() - entry.at) / 1000)) } });
  } catch (e) {
    console.error('availability', isbn, e);
    return new Response('try again', { status: 503, headers: { 'retry-after': '3' } });
  }
}
