import { randomUUID } from 'node:crypto';
import type { Redis } from '@upstash/redis';

/** POST /orders. Mobile clients repeat a request, with the same key, until it is answered. */
const PENDING_MS = 30_000;
const BUDGET_MS = 20_000;
const DONE_MS = 24 * 60 * 60 * 1000;

const COMPLETE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[1], 'done', 'PX', ARGV[2])
  return 1
end
return 0`;

export interface OrderService {
  /**
   * One transaction; rolled back, and rejected, when the signal aborts. For a
   * request id that already has an order it resolves to that order.
   */
  create(
    customerId: string,
    lines: { sku: string; quantity: number }[],
    opts: { requestId: string; signal: AbortSignal },
  ): Promise<{ orderId: string }>;
}

interface Req {
  headers: Record<string, string | undefined>;
  customerId: string;
  body: { lines: { sku: string; quantity: number }[] };
}
interface Res {
  status(code: number): Res;
  json(body: unknown): void;
}

export function orderHandler(redis: Redis, orders: OrderService) {
  return async (req: Req, res: Res): Promise<void> => {
    const requestId = req.headers['idempotency-key'];
    if (!requestId) {
      res.status(400).json({ error: 'Idempotency-Key is required' });
      return;
    }

    const key = `idem:order:${req.customerId}:${requestId}`;
    const pending = `pending:${randomUUID()}`;
    const startedAt = Date.now();

    let reply: unknown;
    let current: string | null = null;
    try {
      reply = await redis.set(key, pending, { nx: true, px: PENDING_MS });
      if (reply !== 'OK') current = await redis.get<string>(key);
    } catch (err) {
      console.error('order intake without redis', err);
      res.status(503).json({ error: 'try again' });
      return;
    }

    if (reply !== 'OK') {
      if (current === 'done') res.status(200).json({ accepted: true, duplicate: true });
      else res.status(409).json({ error: 'the order is being placed' });
      return;
    }

    try {
      const left = startedAt + BUDGET_MS - Date.now();
      if (left <= 0) throw new Error('no time left to place the order');
      const { orderId } = await orders.create(req.customerId, req.body.lines, {
        requestId,
        signal: AbortSignal.timeout(left),
      });
      res.status(201).json({ accepted: true, orderId });
    } catch (err) {
      console.error('order not placed', key, err);
      res.status(502).json({ error: 'the order was not placed, try again' });
    } finally {
      await complete(redis, key, pending);
    }
  };
}

/** Nobody waits for a request that has been answered. */
async function complete(redis: Redis, key: string, pending: string): Promise<void> {
  try {
    await redis.eval(COMPLETE, [key], [pending, String(DONE_MS)]);
  } catch (err) {
    console.warn('idempotency record left to its TTL', key, err);
  }
}
