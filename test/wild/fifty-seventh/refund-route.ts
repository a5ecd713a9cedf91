import { randomUUID } from 'node:crypto';
import type { FastifyPluginAsync } from 'fastify';
import { createClient } from 'redis';
import { z } from 'zod';
import { orders } from '../orders';
import { psp } from '../psp';

const env = z
  .object({
    REDIS_URL: z.string().url(),
    // how long a refund may hold the order, in seconds
    REFUND_LOCK_TTL: z.coerce.number().int().min(10).max(120).default(30),
  })
  .parse(process.env);

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const Params = z.object({ orderId: z.string().uuid() });
const Body = z.object({ amountCents: z.number().int().positive(), reason: z.string().max(200) });

export const refundRoutes: FastifyPluginAsync = async (app) => {
  const redis = createClient({ url: env.REDIS_URL });
  redis.on('error', (err) => app.log.warn({ err }, 'redis error'));
  await redis.connect();
  app.addHook('onClose', async () => {
    await redis.quit();
  });

  app.post('/orders/:orderId/refunds', { preHandler: app.requireRole('support') }, async (req, reply) => {
    const { orderId } = Params.parse(req.params);
    const { amountCents, reason } = Body.parse(req.body);

    const lockKey = `refund:${orderId}`;
    const lockValue = randomUUID();
    const locked = await redis.set(lockKey, lockValue, { NX: true, PX: env.REFUND_LOCK_TTL });
    if (locked !== 'OK') {
      return reply.code(409).send({ error: 'A refund for this order is in progress' });
    }

    try {
      // partial refunds are allowed, the sum must not exceed what was paid
      const order = await orders.get(orderId);
      if (!order) return reply.code(404).send({ error: 'Order not found' });

      const refundable = order.paidCents - order.refundedCents;
      if (amountCents > refundable) {
        return reply.code(422).send({ error: 'Amount exceeds refundable sum', refundable });
      }

      const refund = await psp.refund({
        paymentId: order.paymentId,
        amountCents,
        timeoutMs: 6_000,
      });
      await orders.addRefund(orderId, {
        pspRefundId: refund.id,
        amountCents,
        reason,
        agentId: req.user.id,
      });

      req.log.info({ orderId, amountCents, refundId: refund.id }, 'refund created');
      return reply.code(201).send({ id: refund.id, refundable: refundable - amountCents });
    } finally {
      await redis
        .eval(RELEASE, { keys: [lockKey], arguments: [lockValue] })
        .catch((err) => req.log.warn({ err, lockKey }, 'release failed'));
    }
  });
};
