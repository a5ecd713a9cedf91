// app/api/checkout/route.ts
import { NextResponse } from 'next/server';
import { Redis } from '@upstash/redis';
import { z } from 'zod';
import { auth } from '@/lib/auth';
import { prisma } from '@/lib/prisma';
import { charge } from '@/lib/payments';

const redis = Redis.fromEnv();

// the platform kills us after 25 s, the lock lives a little longer
export const maxDuration = 25;
const LOCK_SECONDS = 30;

const Body = z.object({ cartId: z.string().cuid(), paymentMethod: z.string() });

/** Users double-click the pay button. Only one checkout per user at a time. */
export async function POST(req: Request) {
  const session = await auth();
  if (!session?.user) return NextResponse.json({ error: 'unauthorized' }, { status: 401 });

  const parsed = Body.safeParse(await req.json());
  if (!parsed.success) return NextResponse.json({ error: 'bad request' }, { status: 400 });
  const { cartId, paymentMethod } = parsed.data;

  const lockKey = `lock:checkout:${session.user.id}`;

  try {
    const locked = await redis.set(lockKey, Date.now(), { nx: true, ex: LOCK_SECONDS });
    if (locked !== 'OK') {
      return NextResponse.json({ error: 'checkout already in progress' }, { status: 409 });
    }

    const cart = await prisma.cart.findFirst({
      where: { id: cartId, userId: session.user.id, orderId: null },
      include: { lines: true },
    });
    if (!cart || cart.lines.length === 0) {
      return NextResponse.json({ error: 'cart is empty' }, { status: 404 });
    }

    const total = cart.lines.reduce((sum, l) => sum + l.unitPrice * l.quantity, 0);
    const payment = await charge({ userId: session.user.id, amount: total, paymentMethod });

    const order = await prisma.order.create({
      data: {
        userId: session.user.id,
        total,
        paymentId: payment.id,
        lines: { create: cart.lines.map((l) => ({ sku: l.sku, quantity: l.quantity, unitPrice: l.unitPrice })) },
      },
    });
    await prisma.cart.update({ where: { id: cart.id }, data: { orderId: order.id } });

    return NextResponse.json({ orderId: order.id }, { status: 201 });
  } catch (err) {
    console.error('checkout failed', err);
    return NextResponse.json({ error: 'checkout failed' }, { status: 500 });
  } finally {
    // always clean up, so that the user can try again at once
    await redis.del(lockKey);
  }
}
