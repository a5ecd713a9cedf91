// app/api/coupons/redeem/route.ts
import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL ?? 'http://localhost:8079',
  token: process.env.UPSTASH_REDIS_REST_TOKEN ?? 'dev',
});

const LOCK_MS = 10_000;

// The write and the check of the lock are one step on the server. If we were
// slow and the lock has gone to another request, nothing is written at all.
const COMMIT = `
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
  redis.call('HSET', KEYS[2], 'remaining', ARGV[2])
  redis.call('SADD', KEYS[3], ARGV[3])
  return 1`;

const UNLOCK = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0`;

const json = (status: number, body: object) =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });

async function isEligible(customerId: string): Promise<boolean> {
  const res = await fetch(`${process.env.CRM_URL}/customers/${encodeURIComponent(customerId)}/eligible`);
  if (!res.ok) throw new Error(`crm answered ${res.status}`);
  return ((await res.json()) as { eligible: boolean }).eligible;
}

export async function POST(req: Request): Promise<Response> {
  const { code, customerId } = (await req.json()) as { code?: string; customerId?: string };
  if (!code || !/^[A-Z0-9]{4,16}$/.test(code) || !customerId) return json(400, { error: 'bad request' });

  const lock = `coupon:${code}:lock`;
  const coupon = `coupon:${code}`;
  const redeemed = `coupon:${code}:redeemed`;
  const token = randomUUID();

  try {
    const got = await redis.set(lock, token, { nx: true, px: LOCK_MS });
    if (got !== 'OK') return json(409, { error: 'coupon is being redeemed, try again' });
  } catch (err) {
    console.error('redeem: lock', err);
    return json(503, { error: 'try again later' });
  }

  try {
    if (await redis.sismember(redeemed, customerId)) return json(200, { already: true });
    const remaining = Number((await redis.hget(coupon, 'remaining')) ?? 0);
    if (remaining <= 0) return json(410, { error: 'coupon is used up' });
    if (!(await isEligible(customerId))) return json(403, { error: 'not eligible' });

    const written = await redis.eval<string[], number>(
      COMMIT,
      [lock, coupon, redeemed],
      [token, String(remaining - 1), customerId],
    );
    if (written !== 1) return json(409, { error: 'took too long, try again' });
    return json(200, { remaining: remaining - 1 });
  } catch (err) {
    console.error('redeem', err);
    return json(503, { error: 'outcome unknown, check your account' });
  } finally {
    await redis.eval(UNLOCK, [lock], [token]).catch((err) => console.warn('redeem: unlock', err));
  }
}
