import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { pathToFileURL } from 'node:url';
import Redis from 'ioredis';

// POST /carts/:id/checkout
// Impatient customers press the button twice, and the mobile app retries on a bad network.
// The second request gets a 409 while the first is still on its way.

const LOCK_TTL_MS = 45_000;
const CHECKOUT_BUDGET_MS = 12_000; // for everything that is done under the lock

const UNLOCK_LUA = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  else
    return 0
  end`;

class HttpError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export function createCheckout({ redis, carts, payments, log = console }) {
  async function pay(cartId, signal) {
    const cart = await carts.load(cartId, { signal });
    if (!cart) throw new HttpError(404, 'no such cart');
    if (cart.status === 'paid') return { orderId: cart.orderId, repeated: true };

    // The provider answers a known key with the charge it made the first time.
    const charge = await payments.charge(
      { amount: cart.total, currency: cart.currency, method: cart.paymentMethod },
      { idempotencyKey: `cart-${cartId}-v${cart.version}`, signal },
    );
    // Conditional on the version, and the order id derives from the charge: safe to repeat.
    const orderId = await carts.markPaid(cartId, { version: cart.version, chargeId: charge.id, signal });
    return { orderId, repeated: false };
  }

  return async function checkout(cartId) {
    const key = `checkout:${cartId}`;
    const token = randomUUID();

    const locked = await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
    if (locked === null) throw new HttpError(409, 'checkout already in progress');

    try {
      // Carts and payments both hand the signal on to fetch().
      return await pay(cartId, AbortSignal.timeout(CHECKOUT_BUDGET_MS));
    } finally {
      try {
        await redis.eval(UNLOCK_LUA, 1, key, token);
      } catch (err) {
        log.warn(`could not unlock ${key}: ${err.message}`);
      }
    }
  };
}

export function createCheckoutServer(deps) {
  const checkout = createCheckout(deps);
  const log = deps.log ?? console;

  return createServer(async (req, res) => {
    const reply = (status, body) => {
      res.writeHead(status, { 'content-type': 'application/json' });
      res.end(JSON.stringify(body));
    };
    const match = /^\/carts\/([\w-]+)\/checkout$/.exec(req.url ?? '');
    if (!match || req.method !== 'POST') return reply(404, { error: 'not found' });

    try {
      const { orderId, repeated } = await checkout(match[1]);
      reply(repeated ? 200 : 201, { orderId });
    } catch (err) {
      if (err instanceof HttpError) return reply(err.status, { error: err.message });
      log.error('checkout failed', { cart: match[1], err });
      reply(err?.name === 'TimeoutError' ? 504 : 500, { error: 'checkout failed' });
    }
  });
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');
  const { carts, payments } = await import(process.env.CHECKOUT_BACKENDS ?? './backends.js');
  createCheckoutServer({ redis, carts, payments }).listen(Number(process.env.PORT ?? 8080));
}
