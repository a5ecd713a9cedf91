// app/api/psp/webhook/route.ts
import { createHmac, timingSafeEqual } from 'node:crypto';
import { Redis } from '@upstash/redis';

export const runtime = 'nodejs';
export const dynamic = 'force-dynamic';

const redis = Redis.fromEnv();

/** The PSP redelivers everything that is not answered with 2xx for three days. */
const SEEN_TTL_S = 4 * 24 * 3600;

interface PspEvent {
  id: string;
  type: 'payment.captured' | 'payment.refunded' | 'payment.chargeback';
  data: { orderId: string; amountMinor: number; currency: string };
}

function signatureMatches(body: string, header: string | null): boolean {
  if (!header) return false;
  const expected = createHmac('sha256', process.env.PSP_WEBHOOK_SECRET ?? '').update(body).digest();
  const given = Buffer.from(header, 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

/** True for the first delivery of an event, false for every further one. */
async function firstDelivery(eventId: string): Promise<boolean> {
  const reply = await redis.set(`psp:seen:${eventId}`, new Date().toISOString(), { nx: true, ex: SEEN_TTL_S });
  return reply === 'OK';
}

async function orders(path: string, body: unknown): Promise<void> {
  const res = await fetch(`${process.env.ORDERS_URL}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${process.env.ORDERS_TOKEN}` },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(10_000),
  });
  if (!res.ok) throw new Error(`orders ${path} answered ${res.status}`);
}

async function handleEvent(event: PspEvent): Promise<void> {
  const { orderId, amountMinor, currency } = event.data;
  switch (event.type) {
    case 'payment.captured':
      return orders(`/orders/${orderId}/payments`, { amountMinor, currency, source: 'psp' });
    case 'payment.refunded':
      return orders(`/orders/${orderId}/refunds`, { amountMinor, currency, source: 'psp' });
    case 'payment.chargeback':
      return orders(`/orders/${orderId}/disputes`, { amountMinor, currency });
    default:
      console.info('psp event ignored', event.id);
  }
}

export async function POST(req: Request): Promise<Response> {
  const body = await req.text();
  if (!signatureMatches(body, req.headers.get('x-psp-signature'))) {
    return new Response('bad signature', { status: 400 });
  }

  const event = JSON.parse(body) as PspEvent;

  if (!(await firstDelivery(event.id))) {
    return Response.json({ received: true, duplicate: true });
  }

  try {
    await handleEvent(event);
  } catch (err) {
    console.error('psp event failed', { id: event.id, type: event.type, err });
    return Response.json({ error: 'could not process event' }, { status: 500 });
  }
  return Response.json({ received: true });
}
