import Stripe from 'stripe';
import { Redis } from '@upstash/redis';

/**
 * AWS Lambda behind API Gateway. Receives Stripe webhooks and releases paid orders to the shop.
 * Function timeout: 30 seconds (template.yaml). Stripe repeats a webhook for up to three days
 * until it gets a 2xx answer.
 */
const redis = Redis.fromEnv();
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY);

// Far longer than the function can run.
const CLAIM_SECONDS = 5 * 60;
// Longer than Stripe keeps repeating.
const DONE_SECONDS = 7 * 24 * 60 * 60;

const respond = (statusCode, message) => ({
  statusCode,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ message }),
});

async function releaseOrder(session, eventId) {
  const response = await fetch(`${process.env.SHOP_API}/orders/${session.client_reference_id}/release`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${process.env.SHOP_TOKEN}`,
      'idempotency-key': eventId,
    },
    body: JSON.stringify({ amount: session.amount_total, currency: session.currency }),
    signal: AbortSignal.timeout(15_000),
  });
  if (!response.ok) {
    throw new Error(`Shop API returned ${response.status}`);
  }
}

export const handler = async (request) => {
  let event;
  try {
    const signature = request.headers['stripe-signature'];
    event = stripe.webhooks.constructEvent(request.body, signature, process.env.STRIPE_WEBHOOK_SECRET);
  } catch (error) {
    return respond(400, `Invalid webhook: ${error.message}`);
  }

  if (event.type !== 'checkout.session.completed') {
    return respond(200, 'Ignored');
  }

  const key = `webhook:stripe:${event.id}`;
  const claimed = await redis.set(key, 'processing', { nx: true, ex: CLAIM_SECONDS });

  if (claimed !== 'OK') {
    const state = await redis.get(key);
    // Not finished yet: a non-2xx answer makes Stripe ask again later.
    return state === 'done' ? respond(200, 'Already handled') : respond(409, 'In progress');
  }

  try {
    await releaseOrder(event.data.object, event.id);
  } catch (error) {
    console.error('Releasing the order failed', { eventId: event.id, error });
    await redis.del(key);
    return respond(500, 'Please retry');
  }

  await redis.set(key, 'done', { ex: DONE_SECONDS });
  return respond(200, 'Handled');
};
