'use strict';

const express = require('express');
const Redis = require('ioredis');
const { randomUUID } = require('crypto');
const { z } = require('zod');
const db = require('../db');
const logger = require('../logger');
const requireUser = require('../middleware/require-user');

const redis = new Redis(process.env.REDIS_URL);
const router = express.Router();

const LOCK_SECONDS = 30;

// only the owner may remove the lock
const UNLOCK_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

const Body = z.object({
  code: z.string().trim().toUpperCase().min(4).max(24),
  cartId: z.string().uuid(),
});

async function lockCoupon(code) {
  const key = `coupon-lock:${code}`;
  const token = randomUUID();
  const created = await redis.setnx(key, token);
  if (created !== 1) return null;
  await redis.expire(key, LOCK_SECONDS);
  return { key, token };
}

async function unlockCoupon(lock) {
  try {
    await redis.eval(UNLOCK_SCRIPT, 1, lock.key, lock.token);
  } catch (err) {
    logger.warn({ err, key: lock.key }, 'could not unlock coupon');
  }
}

router.post('/coupons/redeem', requireUser, async (req, res, next) => {
  const parsed = Body.safeParse(req.body);
  if (!parsed.success) {
    return res.status(400).json({ error: 'invalid_request', issues: parsed.error.issues });
  }
  const { code, cartId } = parsed.data;

  let lock;
  try {
    lock = await lockCoupon(code);
  } catch (err) {
    return next(err);
  }
  if (!lock) {
    return res.status(429).set('Retry-After', '1').json({ error: 'coupon_busy' });
  }

  try {
    // db helpers run with a 5s statement_timeout, two of them fit easily in 30s
    const coupon = await db.coupons.findByCode(code);
    if (!coupon || coupon.expiresAt < new Date()) {
      return res.status(404).json({ error: 'coupon_not_found' });
    }
    if (coupon.redeemed >= coupon.maxRedemptions) {
      return res.status(410).json({ error: 'coupon_used_up' });
    }
    await db.coupons.redeem({ couponId: coupon.id, cartId, userId: req.user.id });
    logger.info({ code, cartId, userId: req.user.id }, 'coupon redeemed');
    return res.json({ discountCents: coupon.discountCents });
  } catch (err) {
    return next(err);
  } finally {
    await unlockCoupon(lock);
  }
});

module.exports = router;
