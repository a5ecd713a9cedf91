import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv({ retry: { retries: 1, backoff: () => 200 } });

const LOCK_TTL = 15; // seconds
const RULES_TIMEOUT_MS = 4_000;
const LATEST_WRITE_MS = 10_000;

type Coupon = { used: number; limit: number; campaign: string };

interface ApiEvent {
  body: string | null;
  requestContext: { authorizer?: { customerId?: string } };
}

interface ApiResult {
  statusCode: number;
  body: string;
}

const UNLOCK_SCRIPT = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

const json = (statusCode: number, payload: unknown): ApiResult => ({
  statusCode,
  body: JSON.stringify(payload),
});

async function lockCoupon(code: string): Promise<string | null> {
  const token = randomUUID();
  const res = await redis.set(`coupon:${code}:lock`, token, { nx: true, px: LOCK_TTL });
  return res === 'OK' ? token : null;
}

async function unlockCoupon(code: string, token: string): Promise<void> {
  try {
    await redis.eval(UNLOCK_SCRIPT, [`coupon:${code}:lock`], [token]);
  } catch (err) {
    console.warn('unlock failed', { code, err });
  }
}

async function campaignAllows(campaign: string, customerId: string): Promise<boolean> {
  const url = `${process.env.CAMPAIGN_API}/campaigns/${campaign}/eligible/${customerId}`;
  const res = await fetch(url, { signal: AbortSignal.timeout(RULES_TIMEOUT_MS) });
  if (!res.ok) throw new Error(`campaign service: ${res.status}`);
  return ((await res.json()) as { eligible: boolean }).eligible;
}

export const handler = async (event: ApiEvent): Promise<ApiResult> => {
  const customerId = event.requestContext.authorizer?.customerId;
  if (!customerId) return json(401, { error: 'unauthorised' });

  const code = String(JSON.parse(event.body ?? '{}').code ?? '').trim().toUpperCase();
  if (!/^[A-Z0-9]{4,20}$/.test(code)) return json(400, { error: 'invalid code' });

  const startedAt = Date.now();
  const token = await lockCoupon(code);
  if (token === null) return json(429, { error: 'busy, please retry' });

  try {
    const coupon = await redis.hgetall<Coupon>(`coupon:${code}`);
    if (!coupon) return json(404, { error: 'unknown code' });
    if (await redis.sismember(`coupon:${code}:customers`, customerId)) {
      return json(409, { error: 'already redeemed' });
    }
    if (coupon.used >= coupon.limit) return json(410, { error: 'used up' });
    if (!(await campaignAllows(coupon.campaign, customerId))) {
      return json(403, { error: 'not eligible' });
    }

    if (Date.now() - startedAt > LATEST_WRITE_MS) return json(503, { error: 'please retry' });
    await redis
      .multi()
      .hset(`coupon:${code}`, { used: coupon.used + 1 })
      .sadd(`coupon:${code}:customers`, customerId)
      .exec();
    return json(200, { redeemed: code, remaining: coupon.limit - coupon.used - 1 });
  } finally {
    await unlockCoupon(code, token);
  }
};
