import { randomBytes } from 'node:crypto';
import Fastify from 'fastify';
import knexFactory from 'knex';
import { createClient } from 'redis';

const app = Fastify({ logger: true });
const knex = knexFactory({ client: 'pg', connection: process.env.DATABASE_URL, acquireConnectionTimeout: 2_000 });

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => app.log.error({ err }, 'redis'));

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

type Release = () => Promise<void>;

async function lockCoupon(code: string): Promise<Release | null> {
  const key = `coupon:${code}`;
  const token = randomBytes(18).toString('base64url');
  const giveUp = Date.now() + 2_000;

  try {
    while (Date.now() < giveUp) {
      const ok = await redis.set(key, token, { NX: true, PX: 15_000 });
      if (ok === 'OK') {
        return async () => {
          await redis
            .eval(RELEASE, { keys: [key], arguments: [token] })
            .catch((err) => app.log.warn({ err, key }, 'unlock failed'));
        };
      }
      await new Promise((r) => setTimeout(r, 40 + Math.random() * 60));
    }
    return null;
  } catch (err) {
    app.log.error({ err, key }, 'redis not available, going on');
    return async () => {};
  }
}

app.post<{ Params: { code: string }; Body: { orderId: string } }>('/coupons/:code/redeem', async (req, reply) => {
  const { code } = req.params;
  const { orderId } = req.body;

  const release = await lockCoupon(code);
  if (!release) return reply.code(429).header('retry-after', '1').send({ error: 'try again' });

  try {
    const coupon = await knex('coupons').where({ code, active: true }).first().timeout(2_000);
    if (!coupon) return reply.code(404).send({ error: 'unknown coupon' });

    const [{ count }] = await knex('redemptions').where({ coupon_id: coupon.id }).count('id as count').timeout(2_000);
    if (Number(count) >= coupon.max_uses) return reply.code(410).send({ error: 'used up' });

    await knex('redemptions').insert({ coupon_id: coupon.id, order_id: orderId }).timeout(2_000);
    return reply.code(201).send({ discountCents: coupon.discount_cents });
  } finally {
    await release();
  }
});

await redis.connect();
await app.listen({ port: Number(process.env.PORT ?? 3000), host: '0.0.0.0' });
