import { createHmac, timingSafeEqual } from 'node:crypto';
import { Hono } from 'hono';
import { Redis } from '@upstash/redis';
import { db } from './db';
import { sendReceipt } from './mail';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
  retry: false,
});

interface BillingEvent {
  id: string;
  type: 'invoice.paid' | 'invoice.failed' | 'subscription.cancelled';
  data: { customerId: string; invoiceId?: string; plan?: string; amount?: number };
}

interface OnceOptions {
  /** Namespace of the keys. */
  prefix?: string;
  /** The provider gives up on redelivering after three days. */
  ttlSeconds?: number;
}

/**
 * Calls `fn` once per id, no matter how many times or on how many edge
 * instances the same event is delivered.
 *
 * @returns true if this call handled it, false for a duplicate
 */
export async function once(
  id: string,
  fn: () => Promise<void>,
  { prefix = 'webhook', ttlSeconds = 7 * 24 * 3600 }: OnceOptions = {},
): Promise<boolean> {
  const first = await redis.set(`${prefix}:${id}`, new Date().toISOString(), {
    nx: true,
    ex: ttlSeconds,
  });
  if (first !== 'OK') return false;
  await fn();
  return true;
}

function verify(body: string, signature: string | undefined): boolean {
  if (!signature) return false;
  const expected = createHmac('sha256', process.env.WEBHOOK_SECRET!).update(body).digest();
  const given = Buffer.from(signature, 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

async function handle(event: BillingEvent): Promise<void> {
  const { customerId, invoiceId, plan, amount } = event.data;
  switch (event.type) {
    case 'invoice.paid':
      await db.transaction(async (tx) => {
        await tx.credits.add(customerId, amount!);
        await tx.invoices.markPaid(invoiceId!);
      });
      await sendReceipt(customerId, invoiceId!).catch((err) => console.warn('receipt not sent', err));
      break;
    case 'invoice.failed':
      await db.customers.update(customerId, { pastDue: true });
      break;
    case 'subscription.cancelled':
      await db.customers.update(customerId, { plan: null, previousPlan: plan });
      break;
  }
}

export const app = new Hono();

app.post('/webhooks/billing', async (c) => {
  const body = await c.req.text();
  if (!verify(body, c.req.header('x-signature'))) {
    return c.json({ error: 'bad signature' }, 401);
  }
  const event = JSON.parse(body) as BillingEvent;
  const handled = await once(event.id, () => handle(event));
  return c.json({ received: true, duplicate: !handled });
});

// Anything but a 2xx makes the provider deliver the event again later.
app.onError((err, c) => {
  console.error('webhook failed', err);
  return c.json({ error: 'internal error' }, 500);
});

export default app;
