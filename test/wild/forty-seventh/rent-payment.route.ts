import { NextResponse, type NextRequest } from 'next/server';
import { createHash, randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import Stripe from 'stripe';
import { z } from 'zod';
import { requireTenant } from '@/lib/auth';
import { findLease } from '@/lib/leases';

const redis = Redis.fromEnv();
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!);

const LOCK_MS = 60_000;
const RESULT_SECONDS = 24 * 60 * 60;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

const Body = z.object({
  leaseId: z.string().min(1),
  month: z.string().regex(/^\d{4}-\d{2}$/),
  paymentMethodId: z.string().startsWith('pm_'),
});

type Stored = { fingerprint: string; status: number; body: Record<string, unknown> };

async function replay(resultKey: string, fingerprint: string) {
  const stored = await redis.get<Stored>(resultKey);
  if (!stored) return null;
  if (stored.fingerprint !== fingerprint) {
    return NextResponse.json({ error: 'idempotency_key_reused' }, { status: 422 });
  }
  return NextResponse.json(stored.body, { status: stored.status });
}

export async function POST(req: NextRequest) {
  const tenant = await requireTenant(req);
  const idem = req.headers.get('idempotency-key');
  if (!idem || !/^[\w-]{16,64}$/.test(idem)) {
    return NextResponse.json({ error: 'idempotency_key_required' }, { status: 400 });
  }
  const parsed = Body.safeParse(await req.json());
  if (!parsed.success) return NextResponse.json({ error: 'bad_request' }, { status: 400 });
  const { leaseId, month, paymentMethodId } = parsed.data;

  const base = `rent:${tenant.id}:${idem}`;
  const resultKey = `${base}:result`;
  const lockKey = `${base}:lock`;
  const fingerprint = createHash('sha256').update(JSON.stringify(parsed.data)).digest('hex');

  const token = randomUUID();
  const got = await redis.set(lockKey, token, { nx: true, px: LOCK_MS });
  if (got !== 'OK') {
    return NextResponse.json({ error: 'in_progress' }, { status: 409, headers: { 'retry-after': '2' } });
  }

  try {
    const earlier = await replay(resultKey, fingerprint);
    if (earlier) return earlier;

    const lease = await findLease(leaseId, tenant.id);
    if (!lease) return NextResponse.json({ error: 'lease_not_found' }, { status: 404 });

    const intent = await stripe.paymentIntents.create(
      {
        amount: lease.rentCents,
        currency: lease.currency,
        customer: tenant.stripeCustomerId,
        payment_method: paymentMethodId,
        confirm: true,
        payment_method_types: ['card'],
        metadata: { leaseId, month },
      },
      { idempotencyKey: base, timeout: 20_000, maxNetworkRetries: 1 },
    );

    const body = { paymentId: intent.id, status: intent.status };
    const record: Stored = { fingerprint, status: 201, body };
    await redis.set(resultKey, record, { ex: RESULT_SECONDS });
    return NextResponse.json(body, { status: 201 });
  } catch (err) {
    if (err instanceof Stripe.errors.StripeCardError) {
      return NextResponse.json({ error: 'card_declined', code: err.code }, { status: 402 });
    }
    throw err;
  } finally {
    await redis.eval(UNLOCK, [lockKey], [token]).catch((err) => console.warn('rent unlock', err));
  }
}
