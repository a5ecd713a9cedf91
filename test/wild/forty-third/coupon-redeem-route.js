// routes/coupons.js
const express = require('express');
const Redis = require('ioredis');
const mysql = require('mysql2/promise');

const router = express.Router();
const redis = new Redis(process.env.REDIS_URL);
const db = mysql.createPool({
  host: process.env.DB_HOST,
  user: process.env.DB_USER,
  password: process.env.DB_PASS,
  database: 'webshop',
});

// client wants: one coupon = max_uses, never more (the spring sale went wrong last year)
router.post('/coupons/:code/redeem', express.json(), async (req, res) => {
  const code = req.params.code.toUpperCase();
  const lockKey = 'lock:coupon:' + code;

  try {
    // lock for 30 sec, queries take max 2 sec
    const locked = await redis.set(lockKey, 'locked', 'EX', 30, 'NX');
    if (!locked) {
      return res.status(409).json({ error: 'Coupon is being used right now, try again' });
    }

    const [rows] = await db.query({
      sql: 'SELECT id, uses, max_uses, discount FROM coupons WHERE code = ?',
      values: [code],
      timeout: 2000,
    });
    const coupon = rows[0];
    if (!coupon) {
      return res.status(404).json({ error: 'Unknown coupon' });
    }
    if (coupon.uses >= coupon.max_uses) {
      return res.status(410).json({ error: 'Coupon is used up' });
    }

    await db.query({
      sql: 'UPDATE coupons SET uses = ? WHERE id = ?',
      values: [coupon.uses + 1, coupon.id],
      timeout: 2000,
    });
    await db.query({
      sql: 'INSERT INTO coupon_uses (coupon_id, order_id) VALUES (?, ?)',
      values: [coupon.id, req.body.orderId],
      timeout: 2000,
    });

    return res.json({ discount: coupon.discount });
  } catch (err) {
    console.error('coupon redeem failed', err);
    return res.status(500).json({ error: 'Something went wrong' });
  } finally {
    // always unlock!
    await redis.del(lockKey);
  }
});

module.exports = router;
