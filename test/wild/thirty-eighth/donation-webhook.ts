import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import Stripe from 'stripe';

const redis = Redis.fromEnv();
// At the worst two tries of 15 s and the pause between them.
const stripe = new Stripe(process.env.STRIPE_KEY!, { timeout: 15_000, maxNetworkRetries: 1 });

const WORK_S = 90;
const DONE_S = 30 * 24 * 3600;

const FINISH = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[1], 'done', 'EX', ARGV[2])
  return 1
end
return 0`;

const GIVE_BACK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function begin(eventId: string): Promise<{ mine: string } | { state: 'done' | 'working' }> {
  const mark = `working:${randomUUID()}`;
  const reply = await redis.set(`stripe:${eventId}`, mark, { nx: true, ex: WORK_S });
  if (reply === 'OK') return { mine: mark };
  const state = await redis.get<string>(`stripe:${eventId}`);
  return { state: state === 'done' ? 'done' : 'working' };
}

/** Matches the donation: the fund puts the same amount on the supporter's balance. */
async function matchDonation(event: Stripe.Event): Promise<void> {
  if (
    event.type !== 'checkout.session.completed' &&
    event.type !== 'checkout.session.async_payment_succeeded'
  ) {
    return;
  }
  const session = event.data.object;
  if (session.payment_status !== 'paid') return;
  if (!session.customer || !session.amount_total || !session.currency) return;
  const customer = typeof session.customer === 'string' ? session.customer : session.customer.id;
  await stripe.customers.createBalanceTransaction(
    customer,
    { amount: -session.amount_total, currency: session.currency, description: `match for ${session.id}` },
    { idempotencyKey: `match:${session.id}` },
  );
}

export async function POST(req: Request): Promise<Response> {
  let event: Stripe.Event;
  try {
    event = await stripe.webhooks.constructEventAsync(
      await req.text(),
      req.headers.get('stripe-signature') ?? '',
      process.env.STRIPE_WEBHOOK_SECRET!,
    );
  } catch {
    return new Response('bad signature', { status: 400 });
  }

  const turn = await begin(event.id);
  if ('state' in turn) {
    // Anything but 2xx and Stripe comes again later.
    return turn.state === 'done' ? new Response('seen') : new Response('in progress', { status: 409 });
  }

  const key = `stripe:${event.id}`;
  try {
    await matchDonation(event);
  } catch (err) {
    console.error('donation %s', event.id, err);
    await redis.eval(GIVE_BACK, [key], [turn.mine]).catch(() => undefined);
    return new Response('try again', { status: 500 });
  }
  await redis.eval(FINISH, [key], [turn.mine, String(DONE_S)]);
  return new Response('ok');
}
