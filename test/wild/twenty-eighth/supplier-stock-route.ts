// app/api/webhooks/supplier-stock/route.ts
import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

export const runtime = 'nodejs';
export const maxDuration = 60;

const redis = Redis.fromEnv();

/** The call to the inventory service is cut off after this long ... */
const APPLY_TIMEOUT_MS = 20_000;
/** ... and the function itself after maxDuration, so a claim outlives both. */
const CLAIM_TTL_S = 180;
/** Suppliers redeliver for up to five days. */
const DONE_TTL_S = 7 * 24 * 3600;

const FINISH = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], 'done', 'EX', ARGV[2])
  return 1
end
return 0`;

const ABANDON = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

interface StockEvent {
  eventId: string;
  supplier: string;
  lines: { sku: string; delta: number }[];
}

async function applyStockEvent(event: StockEvent): Promise<void> {
  const res = await fetch(`${process.env.INVENTORY_URL}/v2/adjustments`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${process.env.INVENTORY_TOKEN}`,
      // The adjustments table has a unique index on this, so a repeat is a no-op there.
      'idempotency-key': `${event.supplier}:${event.eventId}`,
    },
    body: JSON.stringify({ source: event.supplier, lines: event.lines }),
    signal: AbortSignal.timeout(APPLY_TIMEOUT_MS),
  });
  if (!res.ok) throw new Error(`inventory answered ${res.status}`);
}

export async function POST(req: Request): Promise<Response> {
  if (req.headers.get('x-supplier-secret') !== process.env.SUPPLIER_WEBHOOK_SECRET) {
    return new Response('unauthorized', { status: 401 });
  }

  const event = (await req.json()) as StockEvent;
  if (!event.eventId || !event.supplier || !Array.isArray(event.lines)) {
    return Response.json({ error: 'malformed event' }, { status: 400 });
  }

  const key = `stock-event:${event.supplier}:${event.eventId}`;
  const claim = `processing:${randomUUID()}`;

  const claimed = await redis.set(key, claim, { nx: true, ex: CLAIM_TTL_S });
  if (claimed !== 'OK') {
    const state = await redis.get<string>(key);
    if (state === 'done') return Response.json({ status: 'duplicate' });
    // Someone else is on it and may still fail: have the supplier come back.
    return Response.json({ status: 'in progress' }, { status: 409, headers: { 'retry-after': '30' } });
  }

  try {
    await applyStockEvent(event);
  } catch (err) {
    console.error('stock event failed', { key, err });
    await redis.eval(ABANDON, [key], [claim]).catch((e) => console.error('claim not given back', { key, e }));
    return Response.json({ status: 'failed' }, { status: 502 });
  }

  try {
    const finished = await redis.eval(FINISH, [key], [claim, String(DONE_TTL_S)]);
    if (finished !== 1) console.warn('claim had gone before the event was marked done', { key });
  } catch (err) {
    // Applied all the same; a redelivery is caught by the inventory service.
    console.warn('event applied but not marked done', { key, err });
  }
  return Response.json({ status: 'applied' });
}
