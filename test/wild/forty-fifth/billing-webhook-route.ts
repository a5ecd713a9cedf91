// app/api/webhooks/stripe/route.ts
import { NextRequest, NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import { PrismaClient } from '@prisma/client';
import Stripe from 'stripe';

export const runtime = 'nodejs';
export const dynamic = 'force-dynamic';

const redis = Redis.fromEnv();
const prisma = new PrismaClient();
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!);

const EVENT_TTL_SECONDS = 60 * 60 * 24 * 4; // Stripe keeps trying for three days

async function grantCredits(session: Stripe.Checkout.Session) {
  const accountId = session.client_reference_id;
  if (!accountId) throw new Error(`session ${session.id} has no account`);

  const items = await stripe.checkout.sessions.listLineItems(session.id, { limit: 20 });
  const credits = items.data.reduce((sum, item) => {
    const perUnit = Number(item.price?.metadata?.credits ?? 0);
    return sum + perUnit * (item.quantity ?? 1);
  }, 0);

  await prisma.$transaction([
    prisma.account.update({ where: { id: accountId }, data: { credits: { increment: credits } } }),
    prisma.creditEntry.create({ data: { accountId, credits, source: 'stripe', sourceId: session.id } }),
  ]);
}

async function cancelPlan(subscription: Stripe.Subscription) {
  await prisma.account.updateMany({
    where: { stripeSubscriptionId: subscription.id },
    data: { plan: 'FREE', planEndsAt: new Date() },
  });
}

async function handleEvent(event: Stripe.Event) {
  switch (event.type) {
    case 'checkout.session.completed':
      return grantCredits(event.data.object);
    case 'customer.subscription.deleted':
      return cancelPlan(event.data.object);
    default:
      return undefined;
  }
}

/**
 * Stripe delivers at least once and calls again after any answer other than 2xx.
 * Each paid checkout has to be credited, and only once.
 */
export async function POST(req: NextRequest) {
  const signature = req.headers.get('stripe-signature');
  if (!signature) return NextResponse.json({ error: 'no signature' }, { status: 400 });

  let event: Stripe.Event;
  try {
    event = stripe.webhooks.constructEvent(await req.text(), signature, process.env.STRIPE_WEBHOOK_SECRET!);
  } catch {
    return NextResponse.json({ error: 'bad signature' }, { status: 400 });
  }

  const first = await redis.set(`stripe:event:${event.id}`, event.type, { nx: true, ex: EVENT_TTL_SECONDS });
  if (first !== 'OK') {
    return NextResponse.json({ received: true, duplicate: true });
  }

  try {
    await handleEvent(event);
    return NextResponse.json({ received: true });
  } catch (err) {
    console.error('webhook failed, Stripe will retry', event.id, err);
    return NextResponse.json({ error: 'processing failed' }, { status: 500 });
  }
}
