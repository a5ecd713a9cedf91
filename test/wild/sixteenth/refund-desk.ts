import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/** POST /orders/:id/refund, used by the support desk. */
const LOCK_TTL_MS = 20_000;
const BUDGET_MS = 14_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface Order {
  id: string;
  paidCents: number;
  refundedCents: number;
}

export interface OrderStore {
  find(id: string, opts: { signal: AbortSignal }): Promise<Order | undefined>;
  addRefund(id: string, cents: number, refundId: string, opts: { signal: AbortSignal }): Promise<void>;
}

export interface PaymentGateway {
  refund(orderId: string, cents: number, opts: { signal: AbortSignal }): Promise<{ refundId: string }>;
}

interface Req {
  params: { id: string };
  body: { cents: number };
}
interface Res {
  status(code: number): Res;
  json(body: unknown): void;
  on(event: 'close', listener: () => void): void;
}

export function refundHandler(redis: Redis, orders: OrderStore, gateway: PaymentGateway) {
  return async (req: Req, res: Res): Promise<void> => {
    const { cents } = req.body;
    if (!Number.isSafeInteger(cents) || cents <= 0) {
      res.status(400).json({ error: 'cents must be a positive integer' });
      return;
    }

    const key = `lock:refund:${req.params.id}`;
    const token = randomUUID();
    const startedAt = Date.now();

    const reply = await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX').catch(() => undefined);
    if (reply === undefined) {
      res.status(503).json({ error: 'refunds are unavailable' });
      return;
    }
    if (reply === null) {
      res.status(409).json({ error: 'a refund of this order is in progress' });
      return;
    }

    // An agent who closes the tab should not block the order for colleagues.
    res.on('close', () => {
      redis.del(key).catch((err) => console.warn('refund lock not cleared', key, err));
    });

    try {
      const left = startedAt + BUDGET_MS - Date.now();
      if (left <= 0) throw new Error('lock was granted too late');
      const signal = AbortSignal.timeout(left);

      const order = await orders.find(req.params.id, { signal });
      if (!order) {
        res.status(404).json({ error: 'no such order' });
        return;
      }
      if (order.refundedCents + cents > order.paidCents) {
        res.status(422).json({ error: 'more than was paid' });
        return;
      }

      signal.throwIfAborted();
      const { refundId } = await gateway.refund(order.id, cents, { signal });
      await orders.addRefund(order.id, cents, refundId, { signal });
      res.status(201).json({ refundId });
    } catch (err) {
      console.error('refund failed', req.params.id, err);
      res.status(502).json({ error: 'refund failed' });
    } finally {
      await redis.eval(RELEASE, 1, key, token).catch((err) => {
        console.warn('refund lock left to its TTL', key, err);
      });
    }
  };
}
