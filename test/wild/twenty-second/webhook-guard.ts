import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const LEASE_S = 60;
const WORK_MS = 20_000;
const REMEMBER_S = 14 * 24 * 3600; // the provider redelivers for up to ten days

/** Turns our claim into the lasting "done" mark. */
const FINISH = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], 'done', 'EX', ARGV[2])
  return 1
end
return 0`;

/** Gives our claim back so that the redelivery finds the way free. */
const ABANDON = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

interface PaymentEvent {
  id: string;
  account: string;
  cents: number;
}

/**
 * POST /webhooks/payments
 *
 * Handles each event once. While an event is in work its redeliveries get a
 * 409, and the provider comes again later; afterwards they get a 200.
 */
export async function POST(request: Request): Promise<Response> {
  const raw = await request.text();
  if (!signed(raw, request.headers.get('x-signature') ?? '')) {
    return new Response('bad signature', { status: 401 });
  }
  const event = JSON.parse(raw) as PaymentEvent;

  const key = `webhook:payments:${event.id}`;
  const claim = `busy:${randomUUID()}`;
  const askedAt = performance.now();
  const reply = await redis.set(key, claim, { nx: true, ex: LEASE_S });
  if (reply !== 'OK') {
    const state = await redis.get<string>(key);
    return state === 'done'
      ? new Response('seen before', { status: 200 })
      : new Response('in work', { status: 409 });
  }

  const leftMs = LEASE_S * 1000 - (performance.now() - askedAt);
  if (leftMs < WORK_MS + 15_000) {
    return new Response('too slow today', { status: 503 });
  }

  try {
    await book(event, AbortSignal.timeout(WORK_MS));
  } catch (err) {
    console.error(`event ${event.id}`, err);
    await redis.eval(ABANDON, [key], [claim]).catch(() => 0);
    return new Response('booking failed', { status: 502 });
  }

  await redis.eval(FINISH, [key], [claim, String(REMEMBER_S)]);
  return new Response('booked', { status: 200 });
}

/**
 * The ledger keeps the Idempotency-Key in the same transaction as the booking,
 * so a call that timed out on our side and is made again books nothing twice.
 */
async function book(event: PaymentEvent, signal: AbortSignal): Promise<void> {
  const res = await fetch(`${process.env.LEDGER_URL}/bookings`, {
    method: 'POST',
    signal,
    headers: { 'content-type': 'application/json', 'idempotency-key': event.id },
    body: JSON.stringify({ account: event.account, cents: event.cents }),
  });
  await res.arrayBuffer();
  if (!res.ok) throw new Error(`ledger said ${res.status}`);
}

function signed(raw: string, signature: string): boolean {
  const expected = createHmac('sha256', process.env.WEBHOOK_SECRET ?? '').update(raw).digest();
  const given = Buffer.from(signature, 'hex');
  return given.length === expected.length && timingSafeEqual(given, expected);
}
