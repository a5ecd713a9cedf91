import type { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

interface Req {
  session: { customerId: string };
  params: { basketId: string };
}
interface Res {
  status(code: number): Res;
  json(body: unknown): void;
}

interface Basket {
  id: string;
  customerId: string;
  status: 'open' | 'paid';
  totalCents: number;
}

export interface Baskets {
  find(id: string): Promise<Basket | undefined>;
  markPaid(id: string, paymentId: string): Promise<void>;
}

export interface Payments {
  charge(customerId: string, cents: number, signal: AbortSignal): Promise<{ id: string }>;
}

const LOCK_MS = 30_000;
const PREPARE_MS = 5_000;
const CHARGE_MS = 10_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export function checkoutHandler(redis: RedisClient, baskets: Baskets, payments: Payments) {
  return async function checkout(req: Req, res: Res): Promise<void> {
    const { customerId } = req.session;
    const { basketId } = req.params;
    const lockKey = `checkout:${basketId}`;
    const startedAt = performance.now();

    try {
      // The value tells support who is checking out, and the release below compares it,
      // so a shared (family) basket can't be unlocked by another member.
      const reply = await redis.set(lockKey, customerId, { NX: true, PX: LOCK_MS });
      if (reply !== 'OK') {
        res.status(409).json({ error: 'checkout_in_progress' });
        return;
      }

      const basket = await baskets.find(basketId);
      if (!basket || basket.status !== 'open') {
        res.status(410).json({ error: 'basket_closed' });
        return;
      }

      // Everything from here on fits into what is left of the lock.
      if (performance.now() - startedAt > PREPARE_MS) {
        res.status(503).json({ error: 'try_again' });
        return;
      }
      const payment = await payments.charge(customerId, basket.totalCents, AbortSignal.timeout(CHARGE_MS));
      await baskets.markPaid(basketId, payment.id);
      res.status(200).json({ paymentId: payment.id });
    } catch (err) {
      console.error('checkout failed', { basketId, err });
      res.status(502).json({ error: 'checkout_failed' });
    } finally {
      await redis
        .eval(RELEASE, { keys: [lockKey], arguments: [customerId] })
        .catch((err: unknown) => console.warn('checkout lock release', { basketId, err }));
    }
  };
}
