import { Redis } from '@upstash/redis';

/**
 * POST /orders/:orderId/refund (Express)
 *
 * Support agents and the returns portal can both refund an order. The payment provider
 * happily refunds a charge in several parts, so a second refund of the same order has to
 * be prevented on our side.
 */

const LOCK_TTL_SECONDS = 60;
const PROVIDER_TIMEOUT_MS = 10_000;

const redis = Redis.fromEnv();

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  end
  return 0
`;

interface Request {
  params: { orderId: string };
  body: { reason?: string };
  user: { id: string };
}

interface Response {
  status(code: number): Response;
  json(body: unknown): Response;
}

export interface Order {
  id: string;
  chargeId: string;
  totalCents: number;
  refundId: string | null;
}

export interface RefundDeps {
  orders: {
    find(orderId: string, signal: AbortSignal): Promise<Order | null>;
    recordRefund(orderId: string, refundId: string, by: string, signal: AbortSignal): Promise<void>;
  };
  provider: {
    refund(chargeId: string, amountCents: number, signal: AbortSignal): Promise<{ id: string }>;
  };
  logger: {
    info(msg: string, meta?: object): void;
    error(msg: string, meta?: object): void;
  };
}

async function acquire(key: string): Promise<string | null> {
  const token = crypto.randomUUID();
  const reply = await redis.set(key, token, { nx: true, px: LOCK_TTL_SECONDS });
  return reply === 'OK' ? token : null;
}

async function release(key: string, token: string): Promise<void> {
  await redis.eval(RELEASE_SCRIPT, [key], [token]);
}

export function refundHandler({ orders, provider, logger }: RefundDeps) {
  return async function handleRefund(req: Request, res: Response): Promise<void> {
    const { orderId } = req.params;
    const key = `refund:${orderId}`;

    const token = await acquire(key);
    if (!token) {
      res.status(409).json({ error: 'A refund for this order is already in progress' });
      return;
    }

    try {
      // One limit for all calls, well below the lock's lifetime.
      const signal = AbortSignal.timeout(PROVIDER_TIMEOUT_MS);

      const order = await orders.find(orderId, signal);
      if (!order) {
        res.status(404).json({ error: 'Order not found' });
        return;
      }
      if (order.refundId) {
        res.status(200).json({ refundId: order.refundId, alreadyRefunded: true });
        return;
      }

      const refund = await provider.refund(order.chargeId, order.totalCents, signal);
      await orders.recordRefund(orderId, refund.id, req.user.id, signal);

      logger.info('order refunded', { orderId, refundId: refund.id, reason: req.body.reason });
      res.status(201).json({ refundId: refund.id });
    } catch (err) {
      logger.error('refund failed', { orderId, err });
      res.status(502).json({ error: 'Refund failed, please check the order before retrying' });
    } finally {
      await release(key, token).catch((err) =>
        logger.error('refund lock not released', { orderId, err }),
      );
    }
  };
}
