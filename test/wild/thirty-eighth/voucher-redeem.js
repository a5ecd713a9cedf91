'use strict';

const { randomUUID } = require('node:crypto');
const express = require('express');
const Redis = require('ioredis');
const { Pool } = require('pg');

const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2000,
  statement_timeout: 3000,
});

const LOCK_SECONDS = 20;

redis.defineCommand('unlock', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('del', KEYS[1])
    end
    return 0`,
});

async function lockVoucher(code) {
  const key = `voucher:${code}:lock`;
  const token = randomUUID();
  const taken = await redis.setnx(key, token);
  if (taken === 0) return null;
  await redis.expire(key, LOCK_SECONDS);
  return { key, token };
}

function unlockVoucher({ key, token }) {
  return redis.unlock(key, token).catch((err) => {
    console.warn('unlock of %s: %s', key, err.message);
  });
}

const app = express();
app.use(express.json());

app.post('/vouchers/:code/redeem', async (req, res, next) => {
  const { code } = req.params;
  const { visitorId } = req.body;
  let lock = null;
  try {
    lock = await lockVoucher(code);
    if (lock === null) {
      return res.status(409).json({ error: 'voucher is being redeemed at another desk' });
    }

    const { rows } = await pool.query(
      'SELECT uses_left, valid_until < now() AS expired FROM vouchers WHERE code = $1',
      [code],
    );
    if (rows.length === 0) return res.status(404).json({ error: 'no such voucher' });
    if (rows[0].expired) return res.status(410).json({ error: 'voucher has expired' });
    if (rows[0].uses_left < 1) return res.status(410).json({ error: 'voucher is used up' });

    await pool.query(
      `WITH used AS (
         UPDATE vouchers SET uses_left = uses_left - 1 WHERE code = $1 RETURNING code
       )
       INSERT INTO redemptions (code, visitor_id, desk) SELECT code, $2, $3 FROM used`,
      [code, visitorId, req.get('x-desk')],
    );
    return res.json({ usesLeft: rows[0].uses_left - 1 });
  } catch (err) {
    return next(err);
  } finally {
    if (lock) await unlockVoucher(lock);
  }
});

app.listen(Number(process.env.PORT ?? 3000));
