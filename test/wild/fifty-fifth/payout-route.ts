// app/api/payouts/[id]/send/route.ts
import { NextResponse, type NextRequest } from 'next/server';
import { PrismaClient } from '@prisma/client';
import Stripe from 'stripe';

export const runtime = 'nodejs';
export const maxDuration = 60;

const prisma = new PrismaClient();
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!);

const LOCK_MS = 90_000;
const HOUR = 3_600_000;
const RELEASE =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

async function upstash<T>(...command: (string | number)[]): Promise<T> {
  const res = await fetch(process.env.UPSTASH_REDIS_REST_URL!, {
    method: 'POST',
    headers: { Authorization: `Bearer ${process.env.UPSTASH_REDIS_REST_TOKEN}` },
    body: JSON.stringify(command),
    cache: 'no-store',
    signal: AbortSignal.timeout(3_000),
  });
  const body = (await res.json()) as { result?: T; error?: string };
  if (!res.ok || body.error) throw new Error(`upstash ${command[0]}: ${body.error ?? res.status}`);
  return body.result as T;
}

async function send(id: string) {
  const payout = await prisma.payout.findUnique({ where: { id }, include: { seller: true } });
  if (!payout) return NextResponse.json({ error: 'not_found' }, { status: 404 });
  if (payout.status === 'sent') return NextResponse.json({ transfer: payout.transferId });
  if (payout.status !== 'approved' && payout.status !== 'sending') {
    return NextResponse.json({ error: 'not_approved' }, { status: 409 });
  }

  // Stripe forgets idempotency keys after a day. An attempt left half-way
  // longer than that is looked at by a human.
  if (payout.status === 'sending' && Date.now() - payout.firstAttemptAt!.getTime() > 20 * HOUR) {
    return NextResponse.json({ error: 'needs_review' }, { status: 409 });
  }
  if (payout.status === 'approved') {
    const { count } = await prisma.payout.updateMany({
      where: { id, status: 'approved' },
      data: { status: 'sending', firstAttemptAt: new Date() },
    });
    if (count !== 1) return NextResponse.json({ error: 'conflict' }, { status: 409 });
  }

  const transfer = await stripe.transfers.create(
    { amount: payout.amountCents, currency: payout.currency, destination: payout.seller.stripeAccountId },
    { idempotencyKey: `payout-${id}`, timeout: 20_000, maxNetworkRetries: 1 },
  );
  await prisma.payout.updateMany({
    where: { id, status: 'sending' },
    data: { status: 'sent', transferId: transfer.id },
  });
  return NextResponse.json({ transfer: transfer.id });
}

export async function POST(_req: NextRequest, { params }: { params: Promise<{ id: string }> }) {
  const { id } = await params;
  const key = `payout:send:${id}`;
  const token = crypto.randomUUID();

  // Finance people double-click. This spares us Stripe's "key in use" errors;
  // that no money moves twice is seen to by the idempotency key.
  try {
    const reply = await upstash<string | null>('SET', key, token, 'NX', 'PX', LOCK_MS);
    if (reply !== 'OK') return NextResponse.json({ error: 'in_progress' }, { status: 409 });
  } catch (err) {
    console.error('payout lock unavailable', err);
    return NextResponse.json({ error: 'try_later' }, { status: 503 });
  }

  try {
    return await send(id);
  } catch (err) {
    console.error('payout failed', { id, err });
    return NextResponse.json({ error: 'payout_failed' }, { status: 502 });
  } finally {
    await upstash('EVAL', RELEASE, 1, key, token).catch((err) => console.warn('payout unlock', { id, err }));
  }
}
