// app/api/orders/[orderId]/pay/route.ts
import { createHash, randomUUID } from 'node:crypto';
import { NextResponse, type NextRequest } from 'next/server';
import { Redis } from '@upstash/redis';
import Stripe from 'stripe';
import { requireUser } from '@/lib/session';
import { loadOrder } from '@/lib/orders';

export const runtime = 'nodejs';

const redis = Redis.fromEnv();
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!, { timeout: 15_000, maxNetworkRetries: 1 });

const PENDING_SECONDS = 60;
const DONE_SECONDS = 24 * 60 * 60; // same window as Stripe's own idempotency keys

type Pending = { state: 'pending'; owner: string; fp: string };
type Done = { state: 'done'; fp: string; body: { intentId: string; clientSecret: string | null } };

// store the answer unless another attempt has taken over in the meantime
const FINISH = `
local cur = redis.call("GET", KEYS[1])
if cur == false or cur == ARGV[1] then
  redis.call("SET", KEYS[1], ARGV[2], "EX", ARGV[3])
  return 1
end
return 0`;

const FORGET = `
if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end
return 0`;

const sha256 = (s: string) => createHash('sha256').update(s).digest('hex');

export async function POST(req: NextRequest, ctx: { params: Promise<{ orderId: string }> }) {
  const user = await requireUser(req);
  const { orderId } = await ctx.params;
  const clientKey = req.headers.get('idempotency-key');
  if (!clientKey || clientKey.length > 128) {
    return NextResponse.json({ error: 'idempotency-key header required' }, { status: 400 });
  }

  const rawBody = await req.text();
  const fp = sha256(`${orderId}\n${rawBody}`);
  const key = `idem:pay:${user.id}:${sha256(clientKey)}`;
  const owner = randomUUID();
  const pending = JSON.stringify({ state: 'pending', owner, fp } satisfies Pending);

  const claimed = await redis.set(key, pending, { nx: true, ex: PENDING_SECONDS });
  if (claimed !== 'OK') {
    const seen = await redis.get<Pending | Done>(key);
    if (seen && seen.fp !== fp) {
      return NextResponse.json({ error: 'key was used for another request' }, { status: 422 });
    }
    if (seen?.state === 'done') return NextResponse.json(seen.body);
    // the REST client repeats requests on network errors, so this can be our own claim
    if (seen?.state !== 'pending' || seen.owner !== owner) {
      return NextResponse.json({ error: 'in progress' }, { status: 409, headers: { 'retry-after': '2' } });
    }
  }

  let intent: Stripe.PaymentIntent;
  try {
    const order = await loadOrder(user.id, orderId);
    intent = await stripe.paymentIntents.create(
      {
        amount: order.totalCents,
        currency: order.currency,
        customer: user.stripeCustomerId,
        metadata: { orderId: order.id },
      },
      // the very same key for every attempt: Stripe hands back the first intent
      { idempotencyKey: sha256(key) },
    );
  } catch (err) {
    await redis.eval(FORGET, [key], [pending]).catch(() => undefined);
    console.error('payment intent failed', { orderId, err });
    return NextResponse.json({ error: 'payment provider unavailable' }, { status: 502 });
  }

  const body: Done['body'] = { intentId: intent.id, clientSecret: intent.client_secret };
  const done = JSON.stringify({ state: 'done', fp, body } satisfies Done);
  try {
    await redis.eval(FINISH, [key], [pending, done, String(DONE_SECONDS)]);
  } catch (err) {
    // claim lapses in a minute; a repeat asks Stripe with the same key
    console.warn('could not remember payment answer', { orderId, err });
  }
  return NextResponse.json(body);
}
