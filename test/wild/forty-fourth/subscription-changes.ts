import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Hono } from 'hono';
import Redis from 'ioredis';
import { Pool } from 'pg';
import Stripe from 'stripe';
import { z } from 'zod';

// Plan changes come from two sides: the customer portal and Stripe (dunning,
// sales changing things in the dashboard). Both read the entitlements document,
// work out a new one and write it back, so both go through the subscription lock.

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000 });
const pool = new Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 4_000, connectionTimeoutMillis: 3_000 });
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!, { timeout: 8_000, maxNetworkRetries: 0 });

const LOCK_TTL_MS = 30_000;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

class SubscriptionBusy extends Error {}

async function withSubscriptionLock<T>(subscriptionId: string, fn: () => Promise<T>): Promise<T> {
  const key = `subscription:${subscriptionId}:lock`;
  const token = randomUUID();
  let acquired = false;
  for (let i = 0; i < 20 && !acquired; i++) {
    acquired = (await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX')) === 'OK';
    if (!acquired) await sleep(100 + Math.random() * 100);
  }
  if (!acquired) throw new SubscriptionBusy(subscriptionId);
  try {
    return await fn();
  } finally {
    await redis.eval(RELEASE, 1, key, token).catch((err) => console.warn('lock release', key, err));
  }
}

interface SubscriptionRow {
  id: string;
  stripe_subscription_id: string;
  stripe_item_id: string;
  entitlements: { plan: string; seats: number; addons: string[]; history: Array<{ at: string; plan: string; via: string }> };
}

function applyPlan(row: SubscriptionRow, plan: string, seats: number, via: string) {
  const doc = structuredClone(row.entitlements);
  doc.history.push({ at: new Date().toISOString(), plan: doc.plan, via });
  if (plan === 'starter') doc.addons = doc.addons.filter((a) => a !== 'sso');
  doc.plan = plan;
  doc.seats = seats;
  return doc;
}

export const app = new Hono();

app.onError((err, c) => {
  if (err instanceof SubscriptionBusy) return c.json({ error: 'subscription is being changed' }, 503, { 'retry-after': '3' });
  console.error(err);
  return c.json({ error: 'internal error' }, 500);
});

const PlanChange = z.object({ plan: z.enum(['starter', 'team', 'business']), seats: z.number().int().min(1).max(5_000) });

app.post('/subscriptions/:id/plan', async (c) => {
  const subscriptionId = z.string().uuid().parse(c.req.param('id'));
  const change = PlanChange.parse(await c.req.json());

  return withSubscriptionLock(subscriptionId, async () => {
    const { rows } = await pool.query<SubscriptionRow>('SELECT * FROM subscriptions WHERE id = $1', [subscriptionId]);
    if (!rows[0]) return c.json({ error: 'not found' }, 404);

    const doc = applyPlan(rows[0], change.plan, change.seats, 'portal');
    await stripe.subscriptionItems.update(rows[0].stripe_item_id, {
      price: process.env[`STRIPE_PRICE_${change.plan.toUpperCase()}`],
      quantity: change.seats,
    });
    await pool.query('UPDATE subscriptions SET entitlements = $1 WHERE id = $2', [JSON.stringify(doc), rows[0].id]);
    return c.json(doc);
  });
});

app.post('/webhooks/stripe', async (c) => {
  const event = await stripe.webhooks.constructEventAsync(
    await c.req.text(),
    c.req.header('stripe-signature') ?? '',
    process.env.STRIPE_WEBHOOK_SECRET!,
  );
  if (event.type !== 'customer.subscription.updated') return c.body(null, 204);
  const subscription = event.data.object;

  await withSubscriptionLock(subscription.id, async () => {
    const { rows } = await pool.query<SubscriptionRow>(
      'SELECT * FROM subscriptions WHERE stripe_subscription_id = $1',
      [subscription.id],
    );
    if (!rows[0]) return;
    const item = subscription.items.data[0];
    const plan = item.price.lookup_key ?? rows[0].entitlements.plan;
    const seats = item.quantity ?? 1;
    if (plan === rows[0].entitlements.plan && seats === rows[0].entitlements.seats) return;

    const doc = applyPlan(rows[0], plan, seats, 'stripe');
    await pool.query('UPDATE subscriptions SET entitlements = $1 WHERE id = $2', [JSON.stringify(doc), rows[0].id]);
  });
  return c.body(null, 204);
});
