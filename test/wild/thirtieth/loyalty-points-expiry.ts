import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

export const maxDuration = 120; // seconds, platform limit for this function

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
  retry: false,
});

const LOCK_SECONDS = 600;
const STOP_AFTER_MS = 90_000;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

async function unlock(key: string, token: string): Promise<void> {
  try {
    await redis.eval(UNLOCK, [key], [token]);
  } catch (err) {
    console.warn('loyalty: unlock failed', err);
  }
}

async function begin(day: string, token: string): Promise<boolean> {
  const reply = await redis
    .pipeline()
    .set(`loyalty:expiry:${day}:lock`, token, { nx: true, ex: LOCK_SECONDS })
    .hset('loyalty:expiry:last-attempt', { [day]: new Date().toISOString() })
    .exec();
  return Boolean(reply);
}

/** Takes expired points off the balances listed for the day. Returns how many are left to do. */
async function expirePoints(day: string): Promise<number> {
  const startedAt = Date.now();
  const due = `loyalty:due:${day}`;
  const members = (await redis.zrange(due, 0, -1, { withScores: true })) as (string | number)[];

  let left = members.length / 2;
  for (let i = 0; i < members.length; i += 2) {
    if (Date.now() - startedAt > STOP_AFTER_MS) break;
    const customer = String(members[i]);
    const points = Number(members[i + 1]);
    // balance and worklist change together, so a rerun picks up where we stopped
    await redis
      .multi()
      .hincrby('loyalty:balance', customer, -points)
      .zrem(due, customer)
      .rpush(`loyalty:log:${customer}`, `expired ${points} on ${day}`)
      .exec();
    left--;
  }
  return left;
}

export async function POST(request: Request): Promise<Response> {
  if (request.headers.get('authorization') !== `Bearer ${process.env.CRON_SECRET}`) {
    return new Response('unauthorized', { status: 401 });
  }
  const day = new URL(request.url).searchParams.get('day') ?? new Date().toISOString().slice(0, 10);
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) return new Response('bad day', { status: 400 });

  const lockKey = `loyalty:expiry:${day}:lock`;
  const token = randomUUID();
  try {
    if (!(await begin(day, token))) return Response.json({ status: 'busy' }, { status: 409 });
  } catch (err) {
    console.error('loyalty: redis unavailable', err);
    await unlock(lockKey, token);
    return Response.json({ status: 'unavailable' }, { status: 503 });
  }

  try {
    const left = await expirePoints(day);
    return Response.json({ status: left === 0 ? 'done' : 'partial', left });
  } catch (err) {
    console.error('loyalty: expiry run failed', err);
    return Response.json({ status: 'failed' }, { status: 500 });
  } finally {
    await unlock(lockKey, token);
  }
}
