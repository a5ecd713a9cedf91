'use strict';

const { randomUUID } = require('node:crypto');
const express = require('express');
const Redis = require('ioredis');
const { pool } = require('./pg');

const redis = new Redis(process.env.REDIS_URL);
const router = express.Router();

const BUSY_MS = 120_000;
const DONE_MS = 7 * 24 * 3600 * 1000;

redis.defineCommand('finishEvent', {
  numberOfKeys: 1,
  lua: `
    if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
    redis.call('SET', KEYS[1], 'done', 'PX', ARGV[2])
    return 1`,
});
redis.defineCommand('dropEvent', {
  numberOfKeys: 1,
  lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
});

async function apply(event) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    await db.query("SET LOCAL statement_timeout = '10s'");
    const seen = await db.query(
      'INSERT INTO processed_events (id) VALUES ($1) ON CONFLICT DO NOTHING',
      [event.id],
    );
    if (seen.rowCount === 1) {
      await db.query('UPDATE subscriptions SET status = $2 WHERE external_id = $1', [
        event.data.subscription,
        event.data.status,
      ]);
    }
    await db.query('COMMIT');
  } catch (err) {
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

router.post('/hooks/billing', express.json(), async (req, res) => {
  const event = req.body;
  const key = `hook:billing:${event.id}`;
  const claim = `busy:${randomUUID()}`;

  try {
    const claimed = await redis.set(key, claim, 'PX', BUSY_MS, 'NX');
    if (!claimed) {
      const state = await redis.get(key);
      if (state === 'done') return res.sendStatus(200);
      return res.set('Retry-After', '30').sendStatus(503);
    }
  } catch (err) {
    req.log?.error(err);
    return res.sendStatus(503);
  }

  try {
    await apply(event);
  } catch (err) {
    req.log?.error(err);
    await redis.dropEvent(key, claim).catch(() => {});
    return res.sendStatus(500);
  }

  await redis.finishEvent(key, claim, DONE_MS).catch((err) => req.log?.warn(err));
  return res.sendStatus(200);
});

module.exports = router;
