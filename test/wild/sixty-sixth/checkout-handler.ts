import Redis from 'ioredis';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';

interface Req {
  params: { cartId: string };
  headers: Record<string, string | undefined>;
  user: { id: string };
}

interface Res {
  status(code: number): Res;
  setHeader(name: string, value: string): void;
  json(body: unknown): void;
}

interface Cart {
  id: string;
  ownerId: string;
  version: number;
  totalCents: number;
  currency: string;
  status: 'open' | 'paid';
  orderId?: string;
  chargeId?: string;
}

export interface CheckoutDeps {
  redlock: Redlock;
  carts: {
    find(id: string): Promise<Cart | undefined>;
    /** UPDATE ... WHERE id = ? AND version = ? AND status = 'open' */
    markPaid(id: string, version: number, chargeId: string): Promise<{ orderId: string } | null>;
  };
  payments: {
    /** the provider dedupes on idempotencyKey for 24 h */
    charge(input: { amount: number; currency: string; idempotencyKey: string }): Promise<{ id: string }>;
    refund(chargeId: string, idempotencyKey: string): Promise<void>;
  };
  log: { info(o: object, m: string): void; warn(o: object, m: string): void; error(o: object, m: string): void };
}

type Outcome = { code: number; body: Record<string, unknown> };

const CART_LOCK_MS = 10_000;

export function createRedlock(log: CheckoutDeps['log']): Redlock {
  const client = new Redis({
    host: process.env.REDIS_HOST ?? 'localhost',
    port: Number(process.env.REDIS_PORT ?? 6379),
    password: process.env.REDIS_PASSWORD,
  });
  const redlock = new Redlock([client], {
    retryCount: 5,
    retryDelay: 150,
    retryJitter: 100,
    automaticExtensionThreshold: 3_000,
  });
  redlock.on('error', (err: unknown) => {
    if (err instanceof ResourceLockedError) return; // contention, the caller hears of it
    log.warn({ err }, 'redlock');
  });
  return redlock;
}

export function createCheckoutHandler({ redlock, carts, payments, log }: CheckoutDeps) {
  async function checkout(cartId: string, userId: string, signal: { aborted: boolean; error?: Error }): Promise<Outcome> {
    const cart = await carts.find(cartId);
    if (!cart || cart.ownerId !== userId) {
      return { code: 404, body: { error: 'cart_not_found' } };
    }
    if (cart.status === 'paid') {
      return { code: 200, body: { orderId: cart.orderId } };
    }

    if (signal.aborted) throw signal.error ?? new Error('cart lock lost');
    const charge = await payments.charge({
      amount: cart.totalCents,
      currency: cart.currency,
      idempotencyKey: `cart-${cart.id}-v${cart.version}`,
    });

    // No check of the signal here: the money is taken, so go to the conditional
    // update, which tells for certain whether somebody else changed the cart.
    const paid = await carts.markPaid(cart.id, cart.version, charge.id);
    if (paid) {
      return { code: 201, body: { orderId: paid.orderId } };
    }

    const now = await carts.find(cartId);
    if (now?.status === 'paid' && now.chargeId === charge.id) {
      // same charge by its idempotency key, booked by the other request
      return { code: 200, body: { orderId: now.orderId } };
    }
    await payments.refund(charge.id, `refund-${charge.id}`);
    return { code: 409, body: { error: 'cart_changed' } };
  }

  return async function handler(req: Req, res: Res): Promise<void> {
    const { cartId } = req.params;
    let outcome: Outcome | undefined;

    try {
      await redlock.using([`lock:cart:${cartId}`], CART_LOCK_MS, async (signal) => {
        outcome = await checkout(cartId, req.user.id, signal);
      });
    } catch (err) {
      // `using` also rejects if the release at its end fails; the checkout itself
      // is then done and the answer for the customer stands.
      if (outcome) {
        log.warn({ err, cartId }, 'cart lock not released cleanly');
      } else if (err instanceof ExecutionError) {
        log.info({ cartId }, 'cart busy');
        res.setHeader('Retry-After', '2');
        res.status(423).json({ error: 'cart_busy' });
        return;
      } else {
        log.error({ err, cartId }, 'checkout failed');
        res.status(500).json({ error: 'internal' });
        return;
      }
    }

    res.status(outcome!.code).json(outcome!.body);
  };
}
