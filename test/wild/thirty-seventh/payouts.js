'use strict';

const crypto = require('node:crypto');
const express = require('express');
const Redis = require('ioredis');
const Stripe = require('stripe');

const redis = new Redis(process.env.REDIS_URL);
const stripe = new Stripe(process.env.STRIPE_SECRET_KEY);

const PENDING_MS = 60 * 1000;
const DONE_SECONDS = 24 * 60 * 60;

const DELETE_IF_EQUAL = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const sha256 = (text) => crypto.createHash('sha256').update(text).digest('hex');

const router = express.Router();

// req.account is set by the auth middleware
router.post('/payouts', express.json(), async (req, res, next) => {
  const clientKey = req.get('Idempotency-Key');
  const { amount, currency } = req.body || {};
  if (!clientKey || clientKey.length > 200) {
    return res.status(400).json({ error: 'Idempotency-Key header required' });
  }
  if (!Number.isSafeInteger(amount) || amount <= 0 || typeof currency !== 'string') {
    return res.status(400).json({ error: 'invalid amount or currency' });
  }

  const recordKey = `idem:payout:${req.account.id}:${sha256(clientKey)}`;
  const bodyHash = sha256(JSON.stringify([amount, currency]));
  const pending = JSON.stringify({ state: 'pending', bodyHash, token: crypto.randomUUID() });

  try {
    const claimed = await redis.set(recordKey, pending, 'PX', PENDING_MS, 'NX');

    if (!claimed) {
      const raw = await redis.get(recordKey);
      const record = raw ? JSON.parse(raw) : null;
      if (record && record.bodyHash !== bodyHash) {
        return res.status(422).json({ error: 'Idempotency-Key was used with another payload' });
      }
      if (record && record.state === 'done') {
        return res.status(201).set('Idempotent-Replayed', 'true').json(record.body);
      }
      return res.status(409).set('Retry-After', '2').json({ error: 'request is being processed' });
    }

    let payout;
    try {
      payout = await stripe.payouts.create(
        { amount, currency, metadata: { account: req.account.id } },
        {
          stripeAccount: req.account.stripeId,
          idempotencyKey: `payout-${sha256(`${req.account.id}:${clientKey}`)}`,
          timeout: 20 * 1000,
          maxNetworkRetries: 1,
        },
      );
    } catch (err) {
      // let the client try again with the same key
      await redis.eval(DELETE_IF_EQUAL, 1, recordKey, pending).catch(() => {});
      throw err;
    }

    const body = { id: payout.id, amount: payout.amount, currency: payout.currency, arrival: payout.arrival_date };
    try {
      await redis.set(recordKey, JSON.stringify({ state: 'done', bodyHash, body }), 'EX', DONE_SECONDS);
    } catch (err) {
      console.error('could not store the payout result', recordKey, err);
    }
    return res.status(201).json(body);
  } catch (err) {
    return next(err);
  }
});

module.exports = router;
