import type { FastifyInstance } from 'fastify';
import Stripe from 'stripe';
import type { RedisClientType } from 'redis';
import { OrderService } from '../orders/order.service';
import { counter } from '../metrics';

interface Deps {
  redis: RedisClientType;
  stripe: Stripe;
  orders: OrderService;
  webhookSecret: string;
}

const SEVEN_DAYS = 7 * 24 * 60 * 60;

export default async function stripeWebhook(app: FastifyInstance, deps: Deps) {
  const { redis, stripe, orders, webhookSecret } = deps;

  /** Stripe delivers at least once and retries for three days, so remember what we have seen. */
  async function firstDelivery(eventId: string): Promise<boolean> {
    const reply = await redis.set(`stripe:event:${eventId}`, new Date().toISOString(), {
      NX: true,
      EX: SEVEN_DAYS,
    });
    return reply === 'OK';
  }

  async function dispatch(event: Stripe.Event): Promise<void> {
    switch (event.type) {
      case 'checkout.session.completed':
        await orders.markPaid(event.data.object.client_reference_id!, event.data.object.id);
        break;
      case 'charge.refunded':
        await orders.markRefunded(event.data.object.payment_intent as string);
        break;
      case 'customer.subscription.deleted':
        await orders.cancelSubscription(event.data.object.id);
        break;
      default:
        app.log.debug({ type: event.type }, 'stripe event not handled');
    }
  }

  app.post('/webhooks/stripe', { config: { rawBody: true } }, async (req, reply) => {
    let event: Stripe.Event;
    try {
      event = stripe.webhooks.constructEvent(
        req.rawBody!,
        req.headers['stripe-signature'] as string,
        webhookSecret,
      );
    } catch (err) {
      req.log.warn({ err }, 'bad stripe signature');
      return reply.code(400).send();
    }

    if (!(await firstDelivery(event.id))) {
      counter('stripe_webhook_duplicate').inc();
      return reply.code(200).send({ duplicate: true });
    }

    try {
      await dispatch(event);
    } catch (err) {
      req.log.error({ err, eventId: event.id, type: event.type }, 'stripe event failed');
      counter('stripe_webhook_failed').inc();
      // non-2xx makes Stripe deliver it again later
      return reply.code(500).send();
    }

    return reply.code(200).send({ received: true });
  });
}
