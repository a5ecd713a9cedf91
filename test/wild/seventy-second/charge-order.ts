import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import Stripe from 'stripe';
import { db } from './db';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY!);

const LOCK_TTL_MS = 30_000;

// Taking the lock twice with one token is the same as taking it once.
const ACQUIRE = `
local owner = redis.call('get', KEYS[1])
if owner == ARGV[1] then return 1 end
if owner then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

export class OrderBusyError extends Error {
  constructor(orderId: string) {
    super(`order ${orderId} is being charged by another worker`);
    this.name = 'OrderBusyError';
  }
}

async function releaseQuietly(key: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, 1, key, token);
  } catch (err) {
    console.warn('lock release failed, it will expire on its own', { key, err });
  }
}

/**
 * Charges an order once.
 *
 * The lock keeps two workers from doing the same work at the same time. It is
 * not what makes the charge unique: the provider's idempotency key and the
 * conditional update below do that, also when a call takes longer than the TTL.
 */
export async function chargeOrder(orderId: string): Promise<'charged' | 'already-paid'> {
  const key = `lock:order:${orderId}`;
  const token = randomUUID();

  let acquired: unknown;
  try {
    acquired = await redis.eval(ACQUIRE, 1, key, token, LOCK_TTL_MS);
  } catch (err) {
    await releaseQuietly(key, token);
    throw err;
  }
  if (acquired !== 1) throw new OrderBusyError(orderId);

  try {
    const order = await db.orders.findById(orderId);
    if (!order) throw new Error(`no such order: ${orderId}`);
    if (order.status === 'paid') return 'already-paid';
    if (order.status !== 'pending') throw new Error(`order ${orderId} is ${order.status}`);

    const intent = await stripe.paymentIntents.create(
      {
        amount: order.amountCents,
        currency: order.currency,
        customer: order.customerId,
        payment_method: order.paymentMethodId,
        confirm: true,
        off_session: true,
      },
      { idempotencyKey: `charge-${orderId}` },
    );
    if (intent.status !== 'succeeded') {
      throw new Error(`charge of ${orderId} ended as ${intent.status}`);
    }

    const { rowCount } = await db.query(
      `UPDATE orders SET status = 'paid', payment_intent = $2, paid_at = now()
        WHERE id = $1 AND status = 'pending'`,
      [orderId, intent.id],
    );
    if (rowCount === 1) return 'charged';

    const after = await db.orders.findById(orderId);
    if (after?.status === 'paid') return 'already-paid';
    throw new Error(`order ${orderId} was charged (${intent.id}) but is ${after?.status ?? 'gone'}, needs a refund`);
  } finally {
    await releaseQuietly(key, token);
  }
}
