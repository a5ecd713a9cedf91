// app/api/webhooks/shipping/route.ts
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { Redis } from '@upstash/redis';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

const CLAIM_SECONDS = 60;
const DONE_SECONDS = 7 * 24 * 3600;
const WORK_LIMIT_MS = 20_000;
const DONE = 'done';

const FINISH = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  redis.call("SET", KEYS[1], ARGV[2], "EX", ARGV[3])
  return 1
end
return 0`;

const ABANDON = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

interface ShippingEvent {
  id: string;
  parcelId: string;
  status: 'in_transit' | 'delivered' | 'returned';
  occurredAt: string;
}

function signatureOk(body: string, header: string | null): boolean {
  const expected = createHmac('sha256', process.env.SHIPPING_WEBHOOK_SECRET!).update(body).digest();
  const given = Buffer.from(header ?? '', 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

// The parcel service stores one row per event id, a repeated PUT is a no-op.
async function recordEvent(event: ShippingEvent, signal: AbortSignal): Promise<void> {
  const res = await fetch(`${process.env.PARCEL_API}/parcels/${event.parcelId}/events/${event.id}`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ status: event.status, occurredAt: event.occurredAt }),
    signal,
  });
  if (!res.ok) throw new Error(`parcel service answered ${res.status}`);
}

export async function POST(req: Request): Promise<Response> {
  const body = await req.text();
  if (!signatureOk(body, req.headers.get('x-signature'))) {
    return new Response('bad signature', { status: 401 });
  }
  const event = JSON.parse(body) as ShippingEvent;

  const key = `webhook:shipping:${event.id}`;
  const claim = `working:${randomUUID()}`;
  const signal = AbortSignal.timeout(WORK_LIMIT_MS);

  const claimed = await redis.set(key, claim, { nx: true, ex: CLAIM_SECONDS });
  if (claimed !== 'OK') {
    const state = await redis.get<string>(key);
    if (state === DONE) return Response.json({ duplicate: true });
    // Being worked on elsewhere; the carrier delivers again after any non-2xx.
    return new Response('in progress', { status: 409, headers: { 'retry-after': '30' } });
  }

  try {
    await recordEvent(event, signal);
    await redis.eval(FINISH, [key], [claim, DONE, String(DONE_SECONDS)]);
    return Response.json({ ok: true });
  } catch (err) {
    console.error('shipping event failed', event.id, err);
    await redis.eval(ABANDON, [key], [claim]).catch(() => undefined);
    return new Response('try again', { status: 500 });
  }
}
