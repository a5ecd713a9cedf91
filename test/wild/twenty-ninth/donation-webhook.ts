// app/api/webhooks/donations/route.ts
import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { Redis } from '@upstash/redis';

export const runtime = 'nodejs';
export const maxDuration = 30;

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

const PROCESSING_MS = 90_000; // three times maxDuration
const REMEMBER_SECONDS = 7 * 24 * 3600; // the provider redelivers for five days

const FORGET_IF_MINE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

type DonationEvent = {
  id: string;
  type: 'donation.succeeded' | 'donation.failed';
  data: { donor: string; amountCents: number; campaign: string };
};

function signatureOk(body: string, header: string | null): boolean {
  if (!header) return false;
  const want = createHmac('sha256', process.env.DONATION_WEBHOOK_SECRET!).update(body).digest();
  const got = Buffer.from(header, 'hex');
  return got.length === want.length && timingSafeEqual(got, want);
}

async function recordInCrm(event: DonationEvent) {
  const res = await fetch(`${process.env.CRM_URL}/gifts`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      // the CRM answers a repeated key with the first gift
      'idempotency-key': event.id,
    },
    body: JSON.stringify(event.data),
    signal: AbortSignal.timeout(15_000),
  });
  if (!res.ok) throw new Error(`CRM answered ${res.status}`);
}

export async function POST(req: Request): Promise<Response> {
  const body = await req.text();
  if (!signatureOk(body, req.headers.get('x-signature'))) {
    return new Response('bad signature', { status: 401 });
  }
  const event = JSON.parse(body) as DonationEvent;
  if (event.type !== 'donation.succeeded') return new Response(null, { status: 204 });

  const key = `webhook:donation:${event.id}`;
  const claim = `processing:${randomUUID()}`;

  const claimed = await redis.set(key, claim, { nx: true, px: PROCESSING_MS });
  if (claimed !== 'OK') {
    const state = await redis.get<string>(key);
    if (state === 'done') return Response.json({ duplicate: true });
    // Still being worked on (or just given back): not a success yet, let them redeliver.
    return new Response('in progress', { status: 409, headers: { 'retry-after': '60' } });
  }

  try {
    await recordInCrm(event);
    await redis.set(key, 'done', { ex: REMEMBER_SECONDS });
    return Response.json({ ok: true });
  } catch (err) {
    console.error('donation webhook failed', event.id, err);
    try {
      await redis.eval(FORGET_IF_MINE, [key], [claim]);
    } catch (e) {
      console.error('could not give back', key, e);
    }
    return new Response('failed', { status: 500 });
  }
}
