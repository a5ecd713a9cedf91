'use strict';

const { createHash, randomUUID } = require('crypto');
const express = require('express');
const Stripe = require('stripe');
const { createClient } = require('redis');
const db = require('../db');

const stripe = new Stripe(process.env.STRIPE_SECRET_KEY, { timeout: 20000, maxNetworkRetries: 1 });
const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => console.error('[redis]', err.message));
redis.connect().catch(() => {});

const PENDING_MS = 90 * 1000;
const DONE_MS = 24 * 3600 * 1000;

const BEGIN = `
local cur = redis.call('get', KEYS[1])
if cur then return cur end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false`;

const FINISH = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0`;

const DROP = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

/**
 * Idempotency-Key support. Answers a replay from Redis and turns away a second
 * request while the first is in flight. This is the fast path only: handlers
 * get `req.idempotencyKey` and must hand it on to whatever they call, since a
 * pending entry is gone after 90 seconds.
 */
function idempotent(handler) {
  return async (req, res, next) => {
    const header = req.get('Idempotency-Key');
    if (!header || header.length > 100) {
      return res.status(400).json({ error: 'Idempotency-Key required' });
    }
    req.idempotencyKey = `${req.user.id}:${header}`;

    const key = `idem:${req.idempotencyKey}`;
    const print = createHash('sha256').update(JSON.stringify(req.body)).digest('hex');
    const pending = JSON.stringify({ state: 'pending', print, token: randomUUID() });

    try {
      const found = await redis.eval(BEGIN, {
        keys: [key],
        arguments: [pending, String(PENDING_MS)],
      });
      if (found && found !== pending) {
        const entry = JSON.parse(found);
        if (entry.print !== print) {
          return res.status(422).json({ error: 'key was used with another body' });
        }
        if (entry.state === 'pending') {
          return res.status(409).set('Retry-After', '2').json({ error: 'in progress' });
        }
        return res.status(entry.status).set('Idempotent-Replay', 'true').json(entry.body);
      }
    } catch (err) {
      return next(err);
    }

    let out;
    try {
      out = await handler(req);
    } catch (err) {
      await redis.eval(DROP, { keys: [key], arguments: [pending] }).catch(() => {});
      return next(err);
    }

    const done = JSON.stringify({ state: 'done', print, status: out.status, body: out.body });
    await redis
      .eval(FINISH, { keys: [key], arguments: [pending, done, String(DONE_MS)] })
      .catch((err) => console.error('[idem] could not save answer', err.message));
    res.status(out.status).json(out.body);
  };
}

const router = express.Router();

router.post(
  '/payments',
  idempotent(async (req) => {
    const key = req.idempotencyKey;
    const before = await db.query('select * from payments where idempotency_key = $1', [key]);
    if (before.rows[0]) return { status: 201, body: before.rows[0] };

    const intent = await stripe.paymentIntents.create(
      {
        amount: req.body.amount,
        currency: 'eur',
        customer: req.user.stripeCustomerId,
        payment_method: req.body.paymentMethod,
        confirm: true,
        off_session: true,
      },
      { idempotencyKey: key },
    );

    await db.query(
      `insert into payments (idempotency_key, user_id, intent_id, amount)
       values ($1, $2, $3, $4) on conflict (idempotency_key) do nothing`,
      [key, req.user.id, intent.id, intent.amount],
    );
    const { rows } = await db.query('select * from payments where idempotency_key = $1', [key]);
    return { status: 201, body: rows[0] };
  }),
);

module.exports = { router, idempotent };
