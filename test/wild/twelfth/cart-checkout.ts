import { randomBytes } from 'node:crypto';
import type { RedisClientType } from 'redis';

// A double click on "Pay" reaches two pods. The second one has to be told that
// the first is at work, and a cart that was ordered stays ordered.

const CHECKOUT_LOCK_MS = 60_000;
const CHARGE_TIMEOUT_MS = 20_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const MARK_ORDERED = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('hset', KEYS[2], 'status', 'ordered', 'charge', ARGV[2])
return 1`;

export interface CartLock {
  readonly key: string;
  readonly token: string;
}

export interface Payments {
  /** The provider drops a repeated charge that carries the same idempotency key. */
  charge(
    amount: number,
    options: { idempotencyKey: string; signal: AbortSignal },
  ): Promise<{ id: string }>;
}

export async function acquireCart(client: RedisClientType, cartId: string): Promise<CartLock | null> {
  const lock: CartLock = { key: `cart:{${cartId}}:checkout`, token: randomBytes(18).toString('base64url') };
  const reply = await client.sendCommand<any>(['SET', lock.key, lock.token, 'PX', String(CHECKOUT_LOCK_MS), 'NX']);
  return reply === 'OK' ? lock : null;
}

export async function releaseCart(client: RedisClientType, lock: CartLock): Promise<void> {
  await client.sendCommand(['EVAL', RELEASE, '1', lock.key, lock.token]);
}

export type CheckoutResult =
  | { status: 'ordered'; chargeId: string }
  | { status: 'in-progress' }
  | { status: 'empty' };

export async function checkout(
  client: RedisClientType,
  payments: Payments,
  cartId: string,
): Promise<CheckoutResult> {
  const lock = await acquireCart(client, cartId);
  if (!lock) return { status: 'in-progress' };

  try {
    const cartKey = `cart:{${cartId}}`;
    const cart = await client.hGetAll(cartKey);
    if (cart.status === 'ordered') return { status: 'ordered', chargeId: cart.charge };
    const total = Number(cart.total ?? 0);
    if (!(total > 0)) return { status: 'empty' };

    const charge = await payments.charge(total, {
      idempotencyKey: `cart-${cartId}`,
      signal: AbortSignal.timeout(CHARGE_TIMEOUT_MS),
    });

    const marked = await client.sendCommand<any>(['EVAL', MARK_ORDERED, '2', lock.key, cartKey, lock.token, charge.id]);
    if (marked !== 1) throw new Error(`checkout of cart ${cartId} took too long, ask for its state again`);
    return { status: 'ordered', chargeId: charge.id };
  } finally {
    await releaseCart(client, lock).catch(() => {
      // gone in a minute at the latest
    });
  }
}
