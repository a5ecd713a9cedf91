import express from 'express';
import { PrismaClient, Order } from '@prisma/client';
import Redis from 'ioredis';
import Redlock, { ExecutionError, RedlockAbortSignal } from 'redlock5';
import Stripe from 'stripe';
import pino from 'pino';

const log = pino({ name: 'captures' });
const prisma = new PrismaClient();
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!, { timeout: 12_000, maxNetworkRetries: 1 });
const redlock = new Redlock([new Redis(process.env.REDIS_URL!)], {
  retryCount: 5,
  retryDelay: 200,
  automaticExtensionThreshold: 3_000,
});
redlock.on('error', () => undefined); // contention shows up as ExecutionError below

function ensure(signal: RedlockAbortSignal): void {
  if (signal.aborted) throw signal.error ?? new Error('lock lost');
}

async function captureIntent(order: Order): Promise<Stripe.PaymentIntent> {
  try {
    return await stripe.paymentIntents.capture(
      order.paymentIntentId,
      { amount_to_capture: order.authorizedCents },
      { idempotencyKey: `capture-${order.id}` },
    );
  } catch (err) {
    // an earlier attempt got through to Stripe but not to our table
    if (err instanceof Stripe.errors.StripeInvalidRequestError && err.code === 'payment_intent_unexpected_state') {
      const intent = await stripe.paymentIntents.retrieve(order.paymentIntentId);
      if (intent.status === 'succeeded') return intent;
    }
    throw err;
  }
}

/** Captures an authorised order once, however often it is called. */
export async function captureOrder(orderId: string): Promise<Order> {
  return redlock.using([`locks:order:${orderId}`], 10_000, async (signal) => {
    const order = await prisma.order.findUniqueOrThrow({ where: { id: orderId } });
    if (order.status === 'CAPTURED') return order;
    if (order.status !== 'AUTHORIZED') throw new Error(`order ${orderId} is ${order.status}`);

    ensure(signal);
    const intent = await captureIntent(order);

    const { count } = await prisma.order.updateMany({
      where: { id: orderId, status: 'AUTHORIZED' },
      data: { status: 'CAPTURED', capturedCents: intent.amount_received, capturedAt: new Date() },
    });
    if (count === 0) log.warn({ orderId }, 'order was already moved on');
    return prisma.order.findUniqueOrThrow({ where: { id: orderId } });
  });
}

const app = express();

app.post('/orders/:id/capture', async (req, res, next) => {
  try {
    const order = await captureOrder(req.params.id);
    res.json({ id: order.id, status: order.status, capturedCents: order.capturedCents });
  } catch (err) {
    if (err instanceof ExecutionError) {
      res.status(409).json({ error: 'the order is being worked on, try again' });
      return;
    }
    next(err);
  }
});

app.listen(Number(process.env.PORT ?? 3000), () => log.info('listening'));
