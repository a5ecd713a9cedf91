import express, { type NextFunction, type Request, type Response } from 'express';
import Redis from 'ioredis';
import { orders } from './db/orders';
import { paymentClient } from './payments';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
redis.on('error', (err) => console.error('[redis]', err.message));

const LOCK_SECONDS = 30;

export const app = express();
app.use(express.json());

/**
 * POST /orders/:id/pay
 *
 * Users double-click the pay button, so we take a short lock on the order while the
 * payment provider is being called. The second request gets a 409.
 */
app.post('/orders/:id/pay', async (req: Request, res: Response, next: NextFunction) => {
  const orderId = req.params.id;
  const lockKey = `lock:order:${orderId}:pay`;

  try {
    const locked = await redis.set(lockKey, '1', 'EX', LOCK_SECONDS, 'NX');
    if (locked !== 'OK') {
      res.status(409).json({ error: 'Payment already in progress' });
      return;
    }

    const order = await orders.findById(orderId);
    if (!order) {
      res.status(404).json({ error: 'Order not found' });
      return;
    }
    if (order.status === 'paid') {
      res.json({ status: 'paid', chargeId: order.chargeId });
      return;
    }

    // provider times out after 15s, comfortably below the lock ttl
    const charge = await paymentClient.charge({
      amount: order.total,
      currency: order.currency,
      source: req.body.source,
      signal: AbortSignal.timeout(15_000),
    });

    await orders.update(orderId, { status: 'paid', chargeId: charge.id });
    res.json({ status: 'paid', chargeId: charge.id });
  } catch (err) {
    next(err);
  } finally {
    // always free the lock, whatever happened above
    await redis.del(lockKey).catch((err) => console.warn('unlock failed', err));
  }
});
