import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import Stripe from 'stripe';
import { findInvoice } from '../db';
import { requirePatient } from './session';

const redis = Redis.fromEnv();
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!, { timeout: 15_000, maxNetworkRetries: 2 });

const PENDING_SECONDS = 120;
const KEEP_SECONDS = 24 * 60 * 60;

interface Answer {
  status: number;
  body: Record<string, unknown>;
}

// Returns what is stored under the key after the call: our own marker when we claimed it
// (also when the HTTP client had to send the request twice), otherwise what was there before.
const CLAIM = `
local cur = redis.call('GET', KEYS[1])
if cur then return cur end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return ARGV[1]`;

const UNCLAIM = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

function reply(answer: Answer, replayed = false): Response {
  return Response.json(answer.body, {
    status: answer.status,
    headers: replayed ? { 'Idempotent-Replayed': 'true' } : {},
  });
}

/**
 * POST /api/copay  { invoiceId }   Idempotency-Key: <uuid>
 * A key may be retried for 24 hours; retries get the first answer. Stripe gets the same key, so a
 * second attempt after a crash finds the first payment intent instead of making another one.
 */
export async function POST(req: Request): Promise<Response> {
  const patient = await requirePatient(req);
  const idem = req.headers.get('Idempotency-Key') ?? '';
  if (!/^[0-9a-f-]{36}$/i.test(idem)) {
    return reply({ status: 400, body: { error: 'Idempotency-Key (uuid) required' } });
  }
  const { invoiceId } = await req.json();
  const invoice = await findInvoice(patient.id, invoiceId);
  if (!invoice) return reply({ status: 404, body: { error: 'no such invoice' } });

  const key = `copay:${patient.id}:${idem}`;
  const marker = `pending:${randomUUID()}`;

  const stored = await redis.eval<string[], string | Answer>(CLAIM, [key], [marker, String(PENDING_SECONDS)]);
  if (typeof stored === 'object') return reply(stored, true);
  if (stored !== marker) {
    return Response.json({ error: 'request is being processed' }, { status: 409, headers: { 'Retry-After': '5' } });
  }

  let answer: Answer;
  try {
    const intent = await stripe.paymentIntents.create(
      {
        amount: invoice.copayCents,
        currency: 'usd',
        customer: patient.stripeCustomer,
        payment_method: patient.defaultCard,
        off_session: true,
        confirm: true,
        metadata: { invoiceId },
      },
      { idempotencyKey: key },
    );
    answer = { status: 201, body: { paymentIntent: intent.id, state: intent.status } };
  } catch (err) {
    if (!(err instanceof Stripe.errors.StripeCardError)) {
      // Outcome unknown. Let the client try again with the same key.
      await redis.eval(UNCLAIM, [key], [marker]).catch((e) => console.error('unclaim failed', key, e));
      console.error('stripe call failed', key, err);
      return reply({ status: 502, body: { error: 'payment provider not available, retry' } });
    }
    answer = { status: 402, body: { error: err.code ?? 'card_declined' } };
  }

  try {
    await redis.set(key, answer, { ex: KEEP_SECONDS });
  } catch (err) {
    console.error('answer not stored, a retry will ask stripe again', key, err);
  }
  return reply(answer);
}
