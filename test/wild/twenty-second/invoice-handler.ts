import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

interface Req {
  params: { orderId: string };
}
interface Res {
  status(code: number): Res;
  set(name: string, value: string): Res;
  json(body: unknown): void;
}

interface Billing {
  findByOrder(orderId: string, signal: AbortSignal): Promise<{ number: string } | null>;
  createFor(orderId: string, signal: AbortSignal): Promise<{ number: string }>;
}

const LOCK_MS = 30_000;
const SPARE_MS = 4_000;

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});

/**
 * POST /orders/:orderId/invoice
 *
 * An order has one invoice. Double clicks and impatient proxies are common
 * here, so the whole of it runs under a lock on the order.
 */
export function issueInvoice(billing: Billing) {
  return async (req: Req, res: Res, next: (err: unknown) => void): Promise<void> => {
    const { orderId } = req.params;
    const key = `invoice-lock:${orderId}`;
    const owner = `o-${randomUUID()}`;

    try {
      const startedAt = performance.now();
      const reply = await redis.set(key, owner, { nx: true, px: LOCK_MS });
      if (reply !== 'OK') {
        res.status(409).set('Retry-After', '5').json({ error: 'invoice is being issued' });
        return;
      }

      try {
        const budget = LOCK_MS - SPARE_MS - (performance.now() - startedAt);
        if (budget <= 0) {
          res.status(503).set('Retry-After', '30').json({ error: 'try again' });
          return;
        }
        const signal = AbortSignal.timeout(Math.floor(budget));

        const existing = await billing.findByOrder(orderId, signal);
        if (existing) {
          res.status(200).json(existing);
          return;
        }
        signal.throwIfAborted();
        res.status(201).json(await billing.createFor(orderId, signal));
      } finally {
        await unlock(key, owner);
      }
    } catch (err) {
      next(err);
    }
  };
}

/** Gives the lock back, provided it is still ours. */
async function unlock(key: string, owner: string): Promise<void> {
  const current = await redis.get<string>(key);
  if (current === owner) {
    await redis.del(key);
  }
}
