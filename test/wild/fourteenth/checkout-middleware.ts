import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Redis } from 'ioredis';

export interface CheckoutRequest extends IncomingMessage {
  cartId: string;
  cartSignal?: AbortSignal;
}

type Next = (err?: unknown) => void;

const TTL_MS = 30_000;
const EXTEND_EVERY_MS = 8_000;

const EXTEND = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 0`;
const RELEASE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0`;

/** One checkout request per cart; the others get 423 and the page polls. */
export function lockCart(redis: Redis) {
  return async (req: CheckoutRequest, res: ServerResponse, next: Next): Promise<void> => {
    const key = `cart:${req.cartId}:checkout`;
    const token = randomUUID();
    const lost = new AbortController();
    let validUntil = performance.now() + TTL_MS - 2_000;

    try {
      const reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
      if (reply !== 'OK') {
        res.writeHead(423, { 'content-type': 'text/plain' }).end('checkout in progress');
        return;
      }
    } catch (err) {
      next(err);
      return;
    }

    const extend = async () => {
      const sentAt = performance.now();
      try {
        const kept = await redis.eval(EXTEND, 1, key, token, TTL_MS);
        if (kept === 1) validUntil = sentAt + TTL_MS - 2_000;
        else lost.abort(new Error('cart lock was lost'));
      } catch (err) {
        console.warn('extending %s failed', key, err);
      }
    };
    const extender = setInterval(() => void extend(), EXTEND_EVERY_MS);
    const watcher = setInterval(() => {
      if (performance.now() > validUntil) lost.abort(new Error('cart lock ran out'));
      if (lost.signal.aborted) {
        clearInterval(extender);
        clearInterval(watcher);
      }
    }, 500);

    res.once('finish', () => {
      clearInterval(extender);
      clearInterval(watcher);
      redis.eval(RELEASE, 1, key, token).catch((err) => console.warn('releasing %s failed', key, err));
    });

    req.cartSignal = lost.signal;
    next();
  };
}

export interface Orders {
  /** Inserts the order unless the cart has one already (unique on cart_id). */
  placeOnce(cartId: string, signal: AbortSignal): Promise<{ orderId: string }>;
}

export function checkout(orders: Orders) {
  return (req: CheckoutRequest, res: ServerResponse, next: Next): void => {
    orders
      .placeOnce(req.cartId, req.cartSignal!)
      .then(({ orderId }) => {
        res.writeHead(201, { 'content-type': 'application/json' });
        res.end(JSON.stringify({ orderId }));
      })
      .catch(next);
  };
}
