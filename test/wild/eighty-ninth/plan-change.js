'use strict';

/**
 * POST /accounts/:id/plan: moves an account to another plan.
 *
 * Changing the plan charges the difference, so there is one change per account at a
 * time. Everything done under the lock has a time limit; together they come to less
 * than half of LOCK_MS:
 *
 *   answer of Redis 5 s, two queries 2 x 5 s, payment 10 s
 */

const { randomUUID } = require('node:crypto');
const express = require('express');
const { createClient } = require('redis');
const { Pool } = require('pg');

const LOCK_MS = 60_000;
const MAX_ANSWER_MS = 5_000;
const PAYMENT_TIMEOUT_MS = 10_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => console.error('redis:', err.message));

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 3_000,
});

class LockUnavailableError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = 'LockUnavailableError';
  }
}

class PaymentFailedError extends Error {
  constructor(status) {
    super(`payment provider answered ${status}`);
    this.name = 'PaymentFailedError';
  }
}

async function release(key, token) {
  try {
    await redis.eval(RELEASE, { keys: [key], arguments: [token] });
  } catch (err) {
    console.warn(`${key} left to expire: ${err.message}`);
  }
}

/** @returns {Promise<boolean>} false when the account is being changed by somebody else */
async function acquire(key, token) {
  const askedAt = performance.now();
  let reply;
  try {
    reply = await redis.set(key, token, { NX: true, PX: LOCK_MS });
  } catch (err) {
    throw new LockUnavailableError('cannot lock the account', { cause: err });
  }
  if (reply === 'OK' && performance.now() - askedAt > MAX_ANSWER_MS) {
    await release(key, token);
    throw new LockUnavailableError('redis is too slow');
  }
  return reply === 'OK';
}

/** The provider books a given idempotency key once, however often it is sent. */
async function charge(accountId, cents, idempotencyKey) {
  const res = await fetch(`${process.env.PAYMENTS_URL}/charges`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': idempotencyKey },
    body: JSON.stringify({ accountId, cents }),
    signal: AbortSignal.timeout(PAYMENT_TIMEOUT_MS),
  });
  if (!res.ok) throw new PaymentFailedError(res.status);
}

async function changePlan(req, res, next) {
  const { planId, changeId } = req.body; // changeId: made by the client, same on a retry
  if (!planId || !changeId) return res.status(400).json({ error: 'planId and changeId needed' });
  const key = `account:${req.params.id}:plan-lock`;
  const token = randomUUID();

  try {
    if (!(await acquire(key, token))) {
      return res.status(409).set('Retry-After', '5').json({ error: 'plan change in progress' });
    }
    try {
      const { rows } = await pool.query(
        `SELECT a.plan_id, n.cents - o.cents AS difference
           FROM accounts a JOIN plans o ON o.id = a.plan_id, plans n
          WHERE a.id = $1 AND n.id = $2`,
        [req.params.id, planId],
      );
      if (rows.length === 0) return res.status(404).json({ error: 'no such account or plan' });
      if (rows[0].plan_id === planId) return res.json({ planId, charged: 0 });

      const cents = Math.max(0, rows[0].difference);
      if (cents > 0) await charge(req.params.id, cents, `${req.params.id}:${changeId}`);
      await pool.query('UPDATE accounts SET plan_id = $2 WHERE id = $1', [req.params.id, planId]);
      return res.json({ planId, charged: cents });
    } finally {
      await release(key, token);
    }
  } catch (err) {
    if (err instanceof LockUnavailableError) return res.status(503).json({ error: err.message });
    if (err instanceof PaymentFailedError) return res.status(402).json({ error: err.message });
    return next(err);
  }
}

const router = express.Router();
router.post('/accounts/:id/plan', express.json(), changePlan);

module.exports = { router, connect: () => redis.connect() };
