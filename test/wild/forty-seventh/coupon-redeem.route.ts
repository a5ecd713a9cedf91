import { NextResponse, type NextRequest } from 'next/server';
import { Redis } from '@upstash/redis';
import { nanoid } from 'nanoid';
import { z } from 'zod';
import { prisma } from '@/lib/prisma';
import { requireCustomer } from '@/lib/session';

const redis = Redis.fromEnv();

const LOCK_MS = 15_000;
const WAIT_MS = 2_500;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const Body = z.object({ code: z.string().trim().toUpperCase().min(4).max(24), cartId: z.string().uuid() });

async function acquire(key: string): Promise<string | null> {
  const token = nanoid();
  const until = Date.now() + WAIT_MS;
  do {
    const reply = await redis.set(key, token, { nx: true, px: LOCK_MS });
    if (reply === 'OK') return token;
    await new Promise((r) => setTimeout(r, 80 + Math.random() * 120));
  } while (Date.now() < until);
  return null;
}

async function release(key: string, token: string) {
  try {
    await redis.eval(RELEASE, [key], [token]);
  } catch (err) {
    console.warn('coupon lock release', key, err);
  }
}

const fail = (status: number, error: string) => NextResponse.json({ error }, { status });

export async function POST(req: NextRequest) {
  const customer = await requireCustomer(req);
  const parsed = Body.safeParse(await req.json());
  if (!parsed.success) return fail(400, 'bad_request');
  const { code, cartId } = parsed.data;

  const coupon = await prisma.coupon.findUnique({ where: { code } });
  if (!coupon || !coupon.active) return fail(404, 'unknown_coupon');
  if (coupon.expiresAt < new Date()) return fail(410, 'coupon_expired');
  if (coupon.remaining <= 0) return fail(409, 'coupon_used_up');

  const key = `lock:coupon:${coupon.id}`;
  const token = await acquire(key);
  if (!token) return fail(503, 'busy');

  try {
    const remaining = coupon.remaining - 1;
    const [redemption] = await prisma.$transaction([
      prisma.redemption.create({
        data: { couponId: coupon.id, customerId: customer.id, cartId, discountCents: coupon.discountCents },
      }),
      prisma.coupon.update({
        where: { id: coupon.id },
        data: { remaining, active: remaining > 0 },
      }),
    ]);

    return NextResponse.json({ redemptionId: redemption.id, discountCents: coupon.discountCents }, { status: 201 });
  } finally {
    await release(key, token);
  }
}
