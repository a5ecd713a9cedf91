import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

export const redis = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
redis.on('error', (err) => console.error('redis error', err));

const LOCK_TTL_MS = 10_000;

async function connected() {
  if (!redis.isOpen) await redis.connect();
  return redis;
}

function lockKey(cartId) {
  return `cart:${cartId}:lock`;
}

export async function lockCart(cartId, requestId = randomUUID()) {
  const client = await connected();
  const reply = await client.set(lockKey(cartId), requestId, { NX: true, PX: LOCK_TTL_MS });
  return reply === 'OK';
}

export async function unlockCart(cartId) {
  const client = await connected();
  const removed = await client.del(lockKey(cartId));
  if (removed === 0) console.warn('cart lock already expired', cartId);
}

export function subtotal(items) {
  return items.reduce((sum, item) => sum + item.price * item.quantity, 0);
}

export function checkoutHandler(carts, payments) {
  return async (req, res, next) => {
    const { cartId } = req.params;
    let locked = false;
    try {
      locked = await lockCart(cartId, req.id);
      if (!locked) {
        res.status(423).json({ error: 'cart is being checked out' });
        return;
      }
      const items = await carts.items(cartId);
      const charge = await payments.charge(req.user, subtotal(items));
      await carts.close(cartId, charge.id);
      res.status(201).json({ charge: charge.id });
    } catch (err) {
      next(err);
    } finally {
      if (locked) await unlockCart(cartId);
    }
  };
}
