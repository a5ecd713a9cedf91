const express = require('express');
const Redis = require('ioredis');
const { v4: uuidv4 } = require('uuid');
const { Pool } = require('pg');

const app = express();
app.use(express.json());

const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3000,
  statement_timeout: 3000,
});

const LOCK_SECONDS = 30;

// https://redis.io/commands/eval - only delete our own
const RELEASE = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

async function acquire(key) {
  const token = uuidv4();
  const got = await redis.setnx(key, token);
  if (got !== 1) return null;
  await redis.expire(key, LOCK_SECONDS);
  return token;
}

async function release(key, token) {
  await redis.eval(RELEASE, 1, key, token);
}

async function redeem(code, userId) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    const { rows } = await db.query('SELECT id, uses_left, percent FROM coupons WHERE code = $1', [code]);
    const coupon = rows[0];
    if (!coupon || coupon.uses_left < 1) {
      await db.query('ROLLBACK');
      return null;
    }
    await db.query('INSERT INTO redemptions (coupon_id, user_id) VALUES ($1, $2)', [coupon.id, userId]);
    await db.query('UPDATE coupons SET uses_left = $2 WHERE id = $1', [coupon.id, coupon.uses_left - 1]);
    await db.query('COMMIT');
    return { percent: coupon.percent };
  } catch (err) {
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

app.post('/coupons/:code/redeem', async (req, res, next) => {
  const key = `lock:coupon:${req.params.code}`;
  try {
    const token = await acquire(key);
    if (!token) {
      return res.status(409).json({ error: 'Coupon is being redeemed, please retry' });
    }
    try {
      const result = await redeem(req.params.code, req.body.userId);
      if (!result) return res.status(410).json({ error: 'Coupon used up' });
      res.json(result);
    } finally {
      await release(key, token);
    }
  } catch (err) {
    next(err);
  }
});

app.listen(process.env.PORT || 3000);
