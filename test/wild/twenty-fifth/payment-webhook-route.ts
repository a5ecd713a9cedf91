// app/api/webhooks/payments/route.ts
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { Redis } from '@upstash/redis';

export const runtime = 'nodejs';
export const maxDuration = 30;

const redis = Redis.fromEnv();
const ORDERS_API = process.env.ORDERS_API!;
const SECRET = process.env.PAYMENT_WEBHOOK_SECRET!;

// The provider repeats an event for up to three days until it gets a 2xx.
const LOCK_SECONDS = 3 * 24 * 60 * 60;

type PaymentEvent =
  | { id: string; type: 'payment.succeeded'; data: { orderId: string; amount: number } }
  | { id: string; type: 'payment.refunded'; data: { orderId: string; amount: number } };

function signatureIsValid(payload: string, header: string | null): boolean {
  if (!header) return false;
  const expected = createHmac('sha256', SECRET).update(payload).digest();
  const given = Buffer.from(header, 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

async function bookOnOrder(orderId: string, kind: 'credit' | 'debit', amount: number): Promise<void> {
  const res = await fetch(`${ORDERS_API}/orders/${orderId}/${kind}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ amount }),
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`orders api answered ${res.status} for order ${orderId}`);
}

async function apply(event: PaymentEvent): Promise<void> {
  switch (event.type) {
    case 'payment.succeeded':
      return bookOnOrder(event.data.orderId, 'credit', event.data.amount);
    case 'payment.refunded':
      return bookOnOrder(event.data.orderId, 'debit', event.data.amount);
  }
}

export async function POST(request: Request): Promise<Response> {
  const payload = await request.text();
  if (!signatureIsValid(payload, request.headers.get('x-payment-signature'))) {
    return Response.json({ error: 'invalid signature' }, { status: 400 });
  }
  const event = JSON.parse(payload) as PaymentEvent;

  // One delivery wins, also when two of them hit different lambdas in the same millisecond.
  // The lock is kept on purpose: it also recognises the repeats of the next days.
  const locked = await redis.set(`lock:payment-event:${event.id}`, randomUUID(), {
    nx: true,
    ex: LOCK_SECONDS,
  });
  if (locked !== 'OK') {
    return Response.json({ received: true, duplicate: true });
  }

  try {
    await apply(event);
    return Response.json({ received: true });
  } catch (err) {
    console.error('payment event failed', event.id, err);
    return Response.json({ error: 'try again later' }, { status: 500 });
  }
}
