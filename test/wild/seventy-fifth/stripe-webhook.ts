// Stripe delivers an event at least once, sometimes two copies within milliseconds.
import { Redis } from '@upstash/redis';
import { Hono } from 'hono';
import Stripe from 'stripe';
import { sql } from '../db';
import { logger } from '../logger';

const redis = Redis.fromEnv();
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!);

const BUSY_SECONDS = 90;
const DONE_SECONDS = 4 * 24 * 3600; // Stripe stops trying after three days

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

async function quietly(what: string, job: () => Promise<unknown>) {
  try {
    await job();
  } catch (err) {
    logger.warn({ err }, `stripe webhook: ${what}`);
  }
}

/** Everything an event changes goes through this one transaction, mails too (outbox). */
async function apply(event: Stripe.Event) {
  await sql.begin(async (tx) => {
    const fresh = await tx`
      insert into stripe_events (id, type) values (${event.id}, ${event.type})
      on conflict (id) do nothing
      returning id`;
    if (fresh.length === 0) return; // seen before

    switch (event.type) {
      case 'invoice.paid': {
        const invoice = event.data.object as Stripe.Invoice;
        await tx`
          update workspaces set credits = credits + ${invoice.amount_paid}
          where stripe_customer = ${String(invoice.customer)}`;
        await tx`
          insert into outbox (kind, payload)
          values ('receipt', ${tx.json({ invoice: invoice.id })})`;
        break;
      }
      case 'customer.subscription.deleted': {
        const sub = event.data.object as Stripe.Subscription;
        await tx`update workspaces set plan = 'free' where stripe_customer = ${String(sub.customer)}`;
        break;
      }
      default:
        logger.debug({ type: event.type }, 'stripe webhook: not interested');
    }
  });
}

export const webhooks = new Hono();

webhooks.post('/stripe', async (c) => {
  let event: Stripe.Event;
  try {
    event = await stripe.webhooks.constructEventAsync(
      await c.req.text(),
      c.req.header('stripe-signature') ?? '',
      process.env.STRIPE_WEBHOOK_SECRET!,
    );
  } catch {
    return c.text('bad signature', 400);
  }

  const key = `wh:stripe:${event.id}`;
  const mine = `busy:${crypto.randomUUID()}`;
  try {
    const set = await redis.set(key, mine, { nx: true, ex: BUSY_SECONDS });
    if (set !== 'OK') {
      const state = await redis.get<string>(key);
      if (state === 'done') return c.body(null, 200);
      // the http client may have sent our SET twice, then it is our own mark we see
      if (state !== mine) return c.text('in progress', 409, { 'Retry-After': '30' });
    }
  } catch (err) {
    // The mark only spares Postgres the duplicates. stripe_events.id is unique.
    logger.warn({ err }, 'stripe webhook: no redis, going on without');
  }

  try {
    await apply(event);
  } catch (err) {
    logger.error({ err, id: event.id }, 'stripe webhook: failed, waiting for the next delivery');
    await quietly('could not clear the mark', () => redis.eval(DROP, [key], [mine]));
    return c.text('failed', 500);
  }

  // It is committed, so "done" is the truth, even if another delivery wrote the mark.
  await quietly('could not mark as done', () => redis.set(key, 'done', { ex: DONE_SECONDS }));
  return c.body(null, 200);
});
