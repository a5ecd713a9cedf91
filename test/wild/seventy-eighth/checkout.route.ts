// app/api/checkout/route.ts
import { NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import Stripe from 'stripe';
import { z } from 'zod';
import { auth } from '@/lib/auth';
import { prisma } from '@/lib/prisma';

export const runtime = 'nodejs';
export const maxDuration = 30;

const redis = Redis.fromEnv();
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!, { timeout: 10_000, maxNetworkRetries: 0 });

const bodySchema = z.object({
  cartId: z.string().cuid(),
  paymentMethodId: z.string().startsWith('pm_'),
});

export async function POST(req: Request) {
  const session = await auth();
  if (!session?.user) {
    return NextResponse.json({ error: 'unauthorized' }, { status: 401 });
  }

  const parsed = bodySchema.safeParse(await req.json());
  if (!parsed.success) {
    return NextResponse.json({ error: parsed.error.flatten() }, { status: 400 });
  }
  const { cartId, paymentMethodId } = parsed.data;

  // people love to double click on "Pay now"
  const lockKey = `checkout-lock:${cartId}`;

  try {
    // function is killed after 30s so 60s is plenty
    const locked = await redis.set(lockKey, session.user.id, { nx: true, ex: 60 });
    if (!locked) {
      return NextResponse.json({ error: 'Your order is already being processed' }, { status: 409 });
    }

    const cart = await prisma.cart.findFirst({
      where: { id: cartId, userId: session.user.id, status: 'OPEN' },
      include: { items: { include: { product: true } } },
    });
    if (!cart || cart.items.length === 0) {
      return NextResponse.json({ error: 'Cart is empty' }, { status: 404 });
    }

    const total = cart.items.reduce((sum, i) => sum + i.product.priceCents * i.quantity, 0);

    const intent = await stripe.paymentIntents.create({
      amount: total,
      currency: 'usd',
      customer: session.user.stripeCustomerId,
      payment_method: paymentMethodId,
      confirm: true,
      automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
      metadata: { cartId },
    });

    const order = await prisma.$transaction(async (tx) => {
      const created = await tx.order.create({
        data: {
          userId: session.user.id,
          totalCents: total,
          paymentIntentId: intent.id,
          items: {
            create: cart.items.map((i) => ({ productId: i.productId, quantity: i.quantity })),
          },
        },
      });
      await tx.cart.update({ where: { id: cartId }, data: { status: 'ORDERED' } });
      return created;
    });

    return NextResponse.json({ orderId: order.id }, { status: 201 });
  } catch (err) {
    if (err instanceof Stripe.errors.StripeCardError) {
      return NextResponse.json({ error: err.message }, { status: 402 });
    }
    console.error('checkout failed', { cartId, err });
    return NextResponse.json({ error: 'Something went wrong' }, { status: 500 });
  } finally {
    await redis.del(lockKey);
  }
}
