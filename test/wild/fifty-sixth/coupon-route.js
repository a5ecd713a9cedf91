import Fastify from 'fastify';
import { PrismaClient } from '@prisma/client';
import { nanoid } from 'nanoid';
import { createClient } from 'redis';

const app = Fastify({ logger: true });
const prisma = new PrismaClient();

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => app.log.error({ err }, 'redis'));

const UNLOCK_SCRIPT = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

/** @param {string} key @param {string} token */
const unlock = (key, token) => redis.eval(UNLOCK_SCRIPT, { keys: [key], arguments: [token] });

const redeemSchema = {
  params: {
    type: 'object',
    required: ['code'],
    properties: { code: { type: 'string', pattern: '^[A-Z0-9]{6,12}$' } },
  },
  body: {
    type: 'object',
    required: ['customerId', 'basketId'],
    properties: { customerId: { type: 'integer' }, basketId: { type: 'string' } },
  },
};

// Influencer codes have a cap on redemptions ("first 500"). Marketing counts to the digit.
app.post('/coupons/:code/redeem', { schema: redeemSchema }, async (req, reply) => {
  const { code } = req.params;
  const { customerId, basketId } = req.body;

  const key = `coupon:${code}:lock`;
  const token = nanoid();
  const acquired = await redis.set(key, token, { NX: true, PX: 12_000 });
  if (acquired === false) {
    return reply.code(429).header('retry-after', '1').send({ error: 'try again' });
  }

  try {
    const redemption = await prisma.$transaction(
      async (tx) => {
        const coupon = await tx.coupon.findUnique({ where: { code } });
        if (!coupon || coupon.endsAt < new Date()) return null;

        const used = await tx.redemption.count({ where: { couponId: coupon.id } });
        if (used >= coupon.maxRedemptions) return null;

        return tx.redemption.create({
          data: { couponId: coupon.id, customerId, basketId, amountCents: coupon.amountCents },
        });
      },
      { maxWait: 1_500, timeout: 4_000 },
    );

    if (!redemption) return reply.code(410).send({ error: 'code is used up or has ended' });
    req.log.info({ code, customerId, redemptionId: redemption.id }, 'coupon redeemed');
    return reply.code(201).send({ id: redemption.id, amountCents: redemption.amountCents });
  } finally {
    await unlock(key, token).catch((err) => req.log.warn({ err, key }, 'coupon unlock'));
  }
});

app.addHook('onClose', async () => {
  await Promise.allSettled([redis.quit(), prisma.$disconnect()]);
});

await redis.connect();
await app.listen({ port: Number(process.env.PORT ?? 3000), host: '0.0.0.0' });
