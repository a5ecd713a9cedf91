'use strict';

const { createHash, randomUUID } = require('crypto');
const express = require('express');
const redis = require('./redis'); // ioredis instance
const db = require('../db');
const log = require('./logger');

const PENDING_MS = 60_000;
const KEEP_MS = 24 * 60 * 60 * 1000;

const STORE_IF_MINE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0`;

const DROP_IF_MINE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const hashOf = (body) => createHash('sha256').update(JSON.stringify(body)).digest('hex');

function answerFromMarker(marker, hash, res) {
  if (marker === null) return res.set('Retry-After', '1').status(409).json({ error: 'retry' });
  const [state, seenHash, ...rest] = marker.split('|');
  if (seenHash !== hash) {
    return res.status(422).json({ error: 'Idempotency-Key was used for another request' });
  }
  if (state === 'pending') {
    return res.set('Retry-After', '2').status(409).json({ error: 'in progress' });
  }
  const { status, body } = JSON.parse(rest.join('|'));
  return res.set('Idempotent-Replay', 'true').status(status).json(body);
}

/**
 * Keeps parallel and repeated requests with one Idempotency-Key from reaching `handler`
 * and replays the first answer for a day. The handler gets the key and has to be safe
 * against a second call with it: a marker can run out while a slow handler is still busy.
 */
function idempotent(handler) {
  return async (req, res, next) => {
    const key = req.get('Idempotency-Key');
    if (!key || key.length > 200) return res.status(400).json({ error: 'Idempotency-Key missing' });

    const hash = hashOf(req.body);
    const slot = `idem:${req.customer.id}:${req.baseUrl}${req.path}:${key}`;
    const mine = `pending|${hash}|${randomUUID()}`;

    try {
      if ((await redis.set(slot, mine, 'PX', PENDING_MS, 'NX')) !== 'OK') {
        const marker = await redis.get(slot);
        if (marker !== mine) return answerFromMarker(marker, hash, res);
      }
    } catch (err) {
      return next(Object.assign(err, { status: 503 }));
    }

    const drop = () =>
      redis.eval(DROP_IF_MINE, 1, slot, mine).catch((err) => log.warn({ err, slot }, 'marker stays until it expires'));

    let out;
    try {
      out = await handler(req, { key, hash });
    } catch (err) {
      await drop();
      return next(err);
    }

    if (out.status >= 500) {
      await drop();
    } else {
      const done = `done|${hash}|${JSON.stringify(out)}`;
      await redis
        .eval(STORE_IF_MINE, 1, slot, mine, done, KEEP_MS)
        .catch((err) => log.warn({ err, slot }, 'answer not stored'));
    }
    return res.status(out.status).json(out.body);
  };
}

// print_orders has UNIQUE (customer_id, idempotency_key)
async function createPrintOrder(req, { key, hash }) {
  const { isbn, copies } = req.body;
  await db.query(
    `INSERT INTO print_orders (customer_id, idempotency_key, request_hash, isbn, copies)
     VALUES ($1, $2, $3, $4, $5)
     ON CONFLICT (customer_id, idempotency_key) DO NOTHING`,
    [req.customer.id, key, hash, isbn, copies],
  );
  const { rows } = await db.query(
    'SELECT id, request_hash FROM print_orders WHERE customer_id = $1 AND idempotency_key = $2',
    [req.customer.id, key],
  );
  if (rows[0].request_hash !== hash) {
    return { status: 422, body: { error: 'Idempotency-Key was used for another request' } };
  }
  return { status: 201, body: { orderId: rows[0].id } };
}

const router = express.Router();
router.post('/print-orders', express.json(), idempotent(createPrintOrder));

module.exports = { router, idempotent };
