import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { db, type Tx } from '../db';

const LOCK_MS = 15_000;
const STATEMENT_TIMEOUT_MS = 2_000;

export class OrderBusy extends Error {}
export class OrderNotCancellable extends Error {}

type OrderStatus = 'placed' | 'packed' | 'shipped' | 'cancelled';

interface OrderRow {
  id: string;
  customer_id: string;
  status: OrderStatus;
  total_cents: number;
}

export interface CancelRequest {
  orderId: string;
  reason: string;
  requestedBy: string;
}

/** Shared by everything that changes an order: cancelling, packing, repricing. */
export async function withOrderLock<T>(redis: Redis, orderId: string, fn: () => Promise<T>): Promise<T> {
  const key = `order:${orderId}:lock`;
  const token = randomUUID();
  for (let attempt = 0; ; attempt += 1) {
    if ((await redis.set(key, token, 'PX', LOCK_MS, 'NX')) === 'OK') break;
    if (attempt >= 10) throw new OrderBusy(orderId);
    await new Promise((r) => setTimeout(r, 100 + Math.random() * 200));
  }
  try {
    return await fn();
  } finally {
    await redis
      .eval(
        `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
        1,
        key,
        token,
      )
      .catch((err: Error) => console.warn(`unlock ${key}: ${err.message}`));
  }
}

export class OrderCancelService {
  constructor(
    private readonly redis: Redis,
    private readonly notify: (customerId: string, template: string, data: object) => Promise<void>,
  ) {}

  async cancel({ orderId, reason, requestedBy }: CancelRequest): Promise<{ refundCents: number }> {
    const result = await db.transaction(async (tx: Tx) => {
      await tx.query(`SET LOCAL statement_timeout = ${STATEMENT_TIMEOUT_MS}`);

      const cancelled = await withOrderLock(this.redis, orderId, async () => {
        const order = await this.load(tx, orderId);
        if (order.status !== 'placed') {
          throw new OrderNotCancellable(`order ${orderId} is ${order.status}`);
        }
        await tx.query(`UPDATE orders SET status = 'cancelled', cancelled_at = now() WHERE id = $1`, [orderId]);
        await tx.query(`INSERT INTO refunds (id, order_id, amount_cents, state) VALUES ($1, $2, $3, 'due')`, [
          randomUUID(),
          orderId,
          order.total_cents,
        ]);
        return order;
      });

      await tx.query(
        `INSERT INTO order_audit (order_id, action, actor, note, at) VALUES ($1, 'cancel', $2, $3, now())`,
        [orderId, requestedBy, reason],
      );
      return cancelled;
    });

    await this.notify(result.customer_id, 'order-cancelled', { orderId, amount: result.total_cents }).catch((err) =>
      console.warn(`notification for ${orderId} not sent`, err),
    );
    return { refundCents: result.total_cents };
  }

  private async load(tx: Tx, orderId: string): Promise<OrderRow> {
    const { rows } = await tx.query(`SELECT id, customer_id, status, total_cents FROM orders WHERE id = $1`, [orderId]);
    if (rows.length === 0) {
      throw new OrderNotCancellable(`order ${orderId} does not exist`);
    }
    return rows[0] as OrderRow;
  }
}

interface Request {
  params: Record<string, string>;
  body: { reason?: string };
  user: { email: string };
}

interface Reply {
  code(status: number): Reply;
  send(body: unknown): void;
}

export function cancelRoute(service: OrderCancelService) {
  return async (req: Request, reply: Reply): Promise<void> => {
    try {
      const { refundCents } = await service.cancel({
        orderId: req.params.id,
        reason: req.body.reason ?? 'unspecified',
        requestedBy: req.user.email,
      });
      reply.code(200).send({ status: 'cancelled', refundCents });
    } catch (err) {
      if (err instanceof OrderBusy) return reply.code(423).send({ error: 'order_busy' });
      if (err instanceof OrderNotCancellable) return reply.code(409).send({ error: err.message });
      throw err;
    }
  };
}
