import { Hono } from 'hono';
import { serve } from '@hono/node-server';
import Stripe from 'stripe';
import Redis from 'ioredis';
import { PrismaClient } from '@prisma/client';
import { logger } from 'hono/logger';

const app = new Hono();
app.use(logger());

const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!);
const redis = new Redis(process.env.REDIS_URL!);
const prisma = new PrismaClient();

const THREE_DAYS = 3 * 24 * 60 * 60;

// Stripe delivers at least once and both replicas can get the same event
async function claimEvent(eventId: string): Promise<boolean> {
  const res = await redis.set(`stripe:event:${eventId}`, Date.now(), 'EX', THREE_DAYS, 'NX');
  return res === 'OK';
}

async function onCheckoutCompleted(session: Stripe.Checkout.Session) {
  const orgId = session.client_reference_id;
  if (!orgId) return;
  await prisma.organisation.update({
    where: { id: orgId },
    data: {
      credits: { increment: Number(session.metadata?.credits ?? 0) },
      stripeCustomerId: session.customer as string,
    },
  });
}

async function onSubscriptionDeleted(sub: Stripe.Subscription) {
  await prisma.organisation.update({
    where: { stripeCustomerId: sub.customer as string },
    data: { plan: 'free' },
  });
}

async function handle(event: Stripe.Event) {
  switch (event.type) {
    case 'checkout.session.completed':
      return onCheckoutCompleted(event.data.object);
    case 'customer.subscription.deleted':
      return onSubscriptionDeleted(event.data.object);
    default:
      return;
  }
}

app.post('/webhooks/stripe', async (c) => {
  const raw = await c.req.text();
  let event: Stripe.Event;
  try {
    event = await stripe.webhooks.constructEventAsync(
      raw,
      c.req.header('stripe-signature') ?? '',
      process.env.STRIPE_WEBHOOK_SECRET!,
    );
  } catch {
    return c.text('bad signature', 400);
  }

  if (!(await claimEvent(event.id))) {
    return c.json({ received: true, duplicate: true });
  }

  try {
    await handle(event);
    return c.json({ received: true });
  } catch (err) {
    console.error(`stripe event ${event.id} (${event.type}) failed`, err);
    // anything but 2xx makes Stripe send it again
    return c.text('handler failed', 500);
  }
});

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 8787) });
