const os = require('os');
const express = require('express');
const axios = require('axios');
const Redis = require('ioredis');
const { Pool } = require('pg');
const logger = require('pino')({ name: 'labels' });

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 1000, maxRetriesPerRequest: 1 });
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2000,
  statement_timeout: 2000,
  query_timeout: 2500,
});

const OWNER = `${os.hostname()}:${process.pid}:${Date.now().toString(36)}`;
const LOCK_TTL_MS = 45_000;
const LOCK_WAIT_MS = 3_000;

redis.defineCommand('unlockIfOwner', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('del', KEYS[1])
    end
    return 0`,
});

async function lock(key) {
  const until = Date.now() + LOCK_WAIT_MS;
  do {
    if ((await redis.set(key, OWNER, 'PX', LOCK_TTL_MS, 'NX')) === 'OK') return;
    await new Promise((r) => setTimeout(r, 150));
  } while (Date.now() < until);
  const err = new Error('order is being processed');
  err.status = 409;
  throw err;
}

const router = express.Router();

// Warehouse staff scan the same parcel twice all the time; each label bought costs money.
router.post('/orders/:id(\\d+)/label', async (req, res, next) => {
  const orderId = Number(req.params.id);
  const key = `lock:label:${orderId}`;
  try {
    await lock(key);

    const { rows } = await pool.query(
      'SELECT id, state, label_url, weight_g, service, address FROM orders WHERE id = $1',
      [orderId],
    );
    const order = rows[0];
    if (!order) return res.status(404).json({ error: 'no such order' });
    if (order.state === 'labelled') return res.json({ url: order.label_url });
    if (order.state !== 'packed') return res.status(422).json({ error: `order is ${order.state}` });

    const { data } = await axios.post(
      `${process.env.CARRIER_URL}/v2/labels`,
      { reference: `O-${orderId}`, weight: order.weight_g, service: order.service, to: order.address },
      {
        headers: { authorization: `Bearer ${process.env.CARRIER_TOKEN}` },
        signal: AbortSignal.timeout(12_000),
      },
    );

    await pool.query(
      "UPDATE orders SET state = 'labelled', label_url = $2, tracking_no = $3 WHERE id = $1",
      [orderId, data.url, data.trackingNumber],
    );
    logger.info({ orderId, tracking: data.trackingNumber }, 'label bought');
    res.status(201).json({ url: data.url });
  } catch (err) {
    next(err);
  } finally {
    redis.unlockIfOwner(key, OWNER).catch((err) => logger.warn({ err, key }, 'unlock failed'));
  }
});

module.exports = router;
