import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { eq, sql } from 'drizzle-orm';
import Stripe from 'stripe';
import { db } from '@/db';
import { accounts, processedEvents } from '@/db/schema';
import { logger } from '@/lib/logger';

export const runtime = 'nodejs';
export const maxDuration = 30;

const LOCK_TTL_MS = 60_000;

const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!);
const redis = Redis.fromEnv();

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

async function grantCredits(event: Stripe.Event, session: Stripe.Checkout.Session): Promise<void> {
  const accountId = session.metadata?.accountId;
  const credits = Number(session.metadata?.credits);
  if (!accountId || !Number.isInteger(credits) || credits <= 0) {
    throw new Error(`event ${event.id} has no usable metadata`);
  }

  await db.transaction(async (tx) => {
    const inserted = await tx
      .insert(processedEvents)
      .values({ id: event.id, type: event.type })
      .onConflictDoNothing()
      .returning({ id: processedEvents.id });
    if (inserted.length === 0) return;

    const updated = await tx
      .update(accounts)
      .set({ credits: sql`${accounts.credits} + ${credits}` })
      .where(eq(accounts.id, accountId))
      .returning({ id: accounts.id });
    if (updated.length !== 1) throw new Error(`account ${accountId} not found`);
  });
}

export async function POST(req: Request): Promise<Response> {
  const payload = await req.text();
  const signature = req.headers.get('stripe-signature') ?? '';

  let event: Stripe.Event;
  try {
    event = stripe.webhooks.constructEvent(payload, signature, process.env.STRIPE_WEBHOOK_SECRET!);
  } catch {
    return Response.json({ error: 'invalid_signature' }, { status: 400 });
  }

  if (event.type !== 'checkout.session.completed') return Response.json({ received: true });
  const session = event.data.object as Stripe.Checkout.Session;
  if (session.payment_status !== 'paid') return Response.json({ received: true });

  const key = `lock:stripe-event:${event.id}`;
  const token = randomUUID();
  try {
    const reply = await redis.set(key, token, { nx: true, px: LOCK_TTL_MS });
    if (reply !== 'OK') return Response.json({ error: 'in_progress' }, { status: 409 });
  } catch (err) {
    logger.error({ err, eventId: event.id }, 'webhook lock unavailable');
    return Response.json({ error: 'unavailable' }, { status: 503 });
  }

  try {
    await grantCredits(event, session);
    return Response.json({ received: true });
  } catch (err) {
    logger.error({ err, eventId: event.id }, 'granting credits failed');
    return Response.json({ error: 'failed' }, { status: 500 });
  } finally {
    try {
      await redis.eval(RELEASE, [key], [token]);
    } catch (err) {
      logger.warn({ err, eventId: event.id }, 'webhook lock release failed');
    }
  }
}
