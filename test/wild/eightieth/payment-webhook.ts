import { Hono } from 'hono';
import { createClient } from 'redis';
import Stripe from 'stripe';
import { randomUUID } from 'node:crypto';
import postgres from 'postgres';
import { logger } from '../lib/logger';

const stripe = new Stripe(process.env.STRIPE_KEY!);
const sql = postgres(process.env.DATABASE_URL!, { connection: { statement_timeout: 5000 } });
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => logger.error({ err }, 'redis'));
await redis.connect();

const SWAP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], 'done', 'EX', ARGV[2])
  return 1
end
return 0`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const WEEK = 7 * 24 * 3600;

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

  const key = `webhook:${event.id}`;
  const pending = `pending:${randomUUID()}`;
  const claimed = await redis.set(key, pending, { NX: true, PX: 60_000 });

  if (claimed === null) {
    const state = await redis.get(key);
    if (state === 'done') return c.text('seen', 200);
    // stripe sends it again later
    return c.text('in progress', 409);
  }

  try {
    if (event.type === 'checkout.session.completed') {
      const session = event.data.object;
      await sql.begin(async (tx) => {
        const fresh = await tx`
          INSERT INTO processed_events (id) VALUES (${event.id}) ON CONFLICT DO NOTHING RETURNING id`;
        if (fresh.length === 0) return;
        await tx`
          UPDATE accounts SET credits = credits + ${Number(session.metadata?.credits ?? 0)}
           WHERE id = ${session.client_reference_id}`;
      });
    }
  } catch (err) {
    logger.error({ err, id: event.id }, 'webhook failed');
    await redis.eval(DROP, { keys: [key], arguments: [pending] }).catch(() => undefined);
    return c.text('failed', 500);
  }

  await redis
    .eval(SWAP, { keys: [key], arguments: [pending, String(WEEK)] })
    .catch((err) => logger.warn({ err, id: event.id }, 'not marked as done'));
  return c.text('ok', 200);
});
