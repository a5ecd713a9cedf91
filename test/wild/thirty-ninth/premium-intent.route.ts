// app/api/policies/[policyId]/premium/route.ts
import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { NextResponse, type NextRequest } from 'next/server';
import Stripe from 'stripe';

export const runtime = 'nodejs';

const redis = Redis.fromEnv();
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!, {
  timeout: 8_000,
  maxNetworkRetries: 1,
});

const UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

type Policy = {
  customerId: string;
  premiumCents: number;
};

async function intentFor(policyId: string, policy: Policy, period: string): Promise<Stripe.PaymentIntent> {
  const monthStart = Math.floor(Date.parse(`${period}-01T00:00:00Z`) / 1000);
  let cancelled = 0;
  for await (const intent of stripe.paymentIntents.list({
    customer: policy.customerId,
    created: { gte: monthStart - 86_400 },
    limit: 100,
  })) {
    if (intent.metadata.policyId !== policyId || intent.metadata.period !== period) continue;
    if (intent.status !== 'canceled') return intent;
    cancelled++;
  }
  return stripe.paymentIntents.create(
    {
      amount: policy.premiumCents,
      currency: 'eur',
      customer: policy.customerId,
      automatic_payment_methods: { enabled: true },
      metadata: { policyId, period },
    },
    { idempotencyKey: `premium:${policyId}:${period}:${cancelled}` },
  );
}

export async function POST(_req: NextRequest, ctx: { params: Promise<{ policyId: string }> }) {
  const { policyId } = await ctx.params;
  const policy = await redis.hgetall<Policy>(`policy:${policyId}`);
  if (!policy) return NextResponse.json({ error: 'unknown policy' }, { status: 404 });

  const period = new Date().toISOString().slice(0, 7);
  const lockKey = `lock:premium:${policyId}:${period}`;
  const token = randomUUID();
  const locked = await redis.set(lockKey, token, { nx: true, ex: 60 });
  if (locked !== 'OK') {
    return NextResponse.json(
      { error: 'payment is being prepared' },
      { status: 409, headers: { 'Retry-After': '2' } },
    );
  }

  try {
    const intent = await intentFor(policyId, policy, period);
    return NextResponse.json({ clientSecret: intent.client_secret, status: intent.status });
  } catch (err) {
    console.error('premium intent', policyId, err);
    return NextResponse.json({ error: 'payment provider unavailable' }, { status: 502 });
  } finally {
    await redis.eval(UNLOCK, [lockKey], [token]).catch((err) => console.error('unlock', err));
  }
}
