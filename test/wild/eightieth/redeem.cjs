'use strict';
const Koa = require('koa');
const Router = require('@koa/router');
const { bodyParser } = require('@koa/bodyparser');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Pool } = require('pg');

const redis = new Redis(process.env.REDIS_URL);
const redlock = new Redlock([redis], { retryCount: 15, retryDelay: 150, retryJitter: 100 });
redlock.on('clientError', (err) => console.error('redlock client', err.message));

const pool = new Pool({ max: 20, connectionTimeoutMillis: 2000, statement_timeout: 2000, query_timeout: 2500 });
const router = new Router();

router.post('/coupons/:code/redeem', async (ctx) => {
  const code = String(ctx.params.code).toUpperCase();
  const { userId, orderId } = ctx.request.body || {};
  ctx.assert(userId && orderId, 400, 'userId and orderId are needed');

  let lock;
  try {
    lock = await redlock.lock(`lock:coupon:${code}`, 30000);
  } catch (err) {
    ctx.throw(429, 'coupon is busy, try again');
  }

  let conn;
  let broken = false;
  try {
    conn = await pool.connect();
    await conn.query('BEGIN');
    const { rows } = await conn.query(
      'SELECT id, percent, max_uses, used FROM coupons WHERE code = $1 AND expires_at > now()',
      [code],
    );
    const coupon = rows[0];
    ctx.assert(coupon, 404, 'no such coupon');
    ctx.assert(coupon.used < coupon.max_uses, 410, 'coupon is used up');

    const claimed = await conn.query(
      `INSERT INTO redemptions (coupon_id, user_id, order_id) VALUES ($1, $2, $3)
       ON CONFLICT (coupon_id, user_id) DO NOTHING`,
      [coupon.id, userId, orderId],
    );
    ctx.assert(claimed.rowCount === 1, 409, 'already redeemed');

    const bumped = await conn.query(
      'UPDATE coupons SET used = used + 1 WHERE id = $1 AND used < max_uses',
      [coupon.id],
    );
    ctx.assert(bumped.rowCount === 1, 410, 'coupon is used up');
    await conn.query('COMMIT');
    ctx.body = { percent: coupon.percent };
  } catch (err) {
    if (conn) {
      await conn.query('ROLLBACK').catch(() => {
        broken = true;
      });
    }
    throw err;
  } finally {
    if (conn) conn.release(broken);
    await lock.unlock().catch((err) => console.warn('unlock', code, err.message));
  }
});

const app = new Koa();
app.use(bodyParser());
app.use(router.routes());
app.use(router.allowedMethods());

if (require.main === module) {
  app.listen(process.env.PORT || 8080);
}

module.exports = app;
