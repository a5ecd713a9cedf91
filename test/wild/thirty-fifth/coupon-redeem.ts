// app/api/coupons/redeem/route.ts
import { randomUUID } from "node:crypto";
import { Redis } from "@upstash/redis";

export const runtime = "nodejs";

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

const LOCK_MS = 15_000;

interface Coupon {
  code: string;
  percent: number;
  remaining: number;
  validUntil: string;
}

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

// Writes go through only while the lock is still ours.
const COMMIT = `
if redis.call("GET", KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call("SET", KEYS[2], ARGV[2], "KEEPTTL")
redis.call("SADD", KEYS[3], ARGV[3])
return 1`;

async function looksFraudulent(userId: string, code: string): Promise<boolean> {
  const res = await fetch(`${process.env.FRAUD_API_URL}/check`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ userId, code }),
    signal: AbortSignal.timeout(3_000),
  });
  if (!res.ok) throw new Error(`fraud check answered ${res.status}`);
  return ((await res.json()) as { flagged: boolean }).flagged;
}

export async function POST(request: Request): Promise<Response> {
  const userId = request.headers.get("x-user-id");
  if (!userId) return Response.json({ error: "unauthenticated" }, { status: 401 });
  const { code } = (await request.json()) as { code?: string };
  if (!code || !/^[A-Z0-9]{6,16}$/.test(code)) {
    return Response.json({ error: "bad code" }, { status: 400 });
  }

  const couponKey = `coupon:{${code}}`;
  const usersKey = `coupon:{${code}}:users`;
  const lockKey = `coupon:{${code}}:lock`;
  const token = randomUUID();

  try {
    const locked = await redis.set(lockKey, token, { nx: true, px: LOCK_MS });
    if (locked !== "OK") {
      return Response.json({ error: "busy, try again" }, { status: 409, headers: { "retry-after": "1" } });
    }

    const coupon = await redis.get<Coupon>(couponKey);
    if (!coupon) return Response.json({ error: "no such coupon" }, { status: 404 });
    // A user redeems a coupon once; asking again gets the same answer.
    if ((await redis.sismember(usersKey, userId)) === 1) {
      return Response.json({ status: "redeemed", percent: coupon.percent });
    }
    if (Date.parse(coupon.validUntil) < Date.now()) return Response.json({ error: "expired" }, { status: 410 });
    if (coupon.remaining <= 0) return Response.json({ error: "used up" }, { status: 410 });
    if (await looksFraudulent(userId, code)) return Response.json({ error: "refused" }, { status: 403 });

    const next: Coupon = { ...coupon, remaining: coupon.remaining - 1 };
    const committed = await redis.eval(
      COMMIT,
      [lockKey, couponKey, usersKey],
      [token, JSON.stringify(next), userId],
    );
    if (committed !== 1) {
      return Response.json({ error: "took too long, try again" }, { status: 503 });
    }
    return Response.json({ status: "redeemed", percent: next.percent });
  } catch (err) {
    console.error("coupon redemption failed", err);
    return Response.json({ error: "try again later" }, { status: 500 });
  } finally {
    // Compares the token, so it is a no-op if somebody else holds the lock.
    await redis.eval(RELEASE, [lockKey], [token]).catch((err) => console.warn("release failed", err));
  }
}
