import crypto from 'node:crypto';
import { Router } from 'express';
import { createClient } from 'redis';
import knex from 'knex';

const config = {
  redisUrl: process.env.REDIS_URL ?? 'redis://localhost:6379',
  // the api gateway cuts a request after 20s, no redemption lives longer than that
  lockTtl: Number(process.env.COUPON_LOCK_TTL ?? 20),
  retries: 25,
  retryDelay: 120,
};

const db = knex({ client: 'pg', connection: process.env.DATABASE_URL, pool: { min: 0, max: 8 } });
const redis = createClient({ url: config.redisUrl });
redis.on('error', (err) => console.error('[redis]', err.message));
const ready = redis.connect();

const RELEASE = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end`;

const wait = (ms) => new Promise((r) => setTimeout(r, ms));

export async function withCouponLock(code, fn) {
  await ready;
  const key = `coupon:${code}:lock`;
  const token = crypto.randomBytes(16).toString('hex');

  for (let i = 0; i < config.retries; i++) {
    const reply = await redis.set(key, token, { NX: true, PX: config.lockTtl });
    if (reply === 'OK') {
      try {
        return await fn();
      } finally {
        await redis
          .eval(RELEASE, { keys: [key], arguments: [token] })
          .catch((err) => console.error('[coupon] release', code, err.message));
      }
    }
    await wait(config.retryDelay + Math.random() * 50);
  }
  const err = new Error('coupon is busy');
  err.status = 429;
  throw err;
}

async function redeem(code, customerId, orderId) {
  const coupon = await db('coupons').where({ code }).first();
  if (!coupon) return { ok: false, reason: 'unknown' };
  if (coupon.valid_until && coupon.valid_until < new Date()) return { ok: false, reason: 'expired' };

  const [{ count }] = await db('coupon_redemptions').where({ coupon_id: coupon.id }).count('* as count');
  if (Number(count) >= coupon.max_redemptions) return { ok: false, reason: 'used_up' };

  const mine = await db('coupon_redemptions')
    .where({ coupon_id: coupon.id, customer_id: customerId })
    .first();
  if (mine) return { ok: false, reason: 'already_redeemed' };

  await db('coupon_redemptions').insert({
    coupon_id: coupon.id,
    customer_id: customerId,
    order_id: orderId,
    discount_cents: coupon.discount_cents,
  });
  return { ok: true, discountCents: coupon.discount_cents };
}

export const couponRouter = Router();

couponRouter.post('/coupons/:code/redeem', async (req, res, next) => {
  const code = req.params.code.trim().toUpperCase();
  const { customerId, orderId } = req.body ?? {};
  if (!customerId || !orderId) {
    return res.status(400).json({ error: 'customerId and orderId are required' });
  }
  try {
    const result = await withCouponLock(code, () => redeem(code, customerId, orderId));
    return res.status(result.ok ? 200 : 422).json(result);
  } catch (err) {
    if (err.status === 429) return res.status(429).json({ error: err.message });
    return next(err);
  }
});
