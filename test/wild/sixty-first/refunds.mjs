import { randomBytes } from 'node:crypto';
import express from 'express';
import { createClient } from 'redis';
import pg from 'pg';
import Stripe from 'stripe';
import pino from 'pino';

const log = pino({ name: 'refunds' });

const stripe = new Stripe(process.env.STRIPE_SECRET_KEY, { timeout: 8_000, maxNetworkRetries: 0 });
const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 3_000,
});
const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => log.error({ err }, 'redis error'));
await redis.connect();

const LOCK_TTL_MS = 45_000;
const CHARGE_BUDGET_MS = 30_000;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0`;

async function acquire(paymentId) {
  const key = `refund:lock:${paymentId}`;
  const token = randomBytes(20).toString('hex');
  const validUntil = performance.now() + LOCK_TTL_MS;
  const reply = await redis.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: LOCK_TTL_MS } });
  if (reply !== 'OK') return null;
  return { key, token, remaining: () => validUntil - performance.now() };
}

async function release(lease) {
  try {
    const removed = await redis.eval(RELEASE, { keys: [lease.key], arguments: [lease.token] });
    if (removed !== 1) log.warn({ key: lease.key }, 'lock had already expired');
  } catch (err) {
    log.warn({ err, key: lease.key }, 'release failed');
  }
}

async function recordRefund(paymentId, refundId, amountCents, providerId) {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    const inserted = await client.query(
      `INSERT INTO refunds (id, payment_id, amount_cents, provider_id)
       VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING`,
      [refundId, paymentId, amountCents, providerId],
    );
    if (inserted.rowCount === 1) {
      await client.query('UPDATE payments SET refunded_cents = refunded_cents + $2 WHERE id = $1', [paymentId, amountCents]);
    }
    await client.query('COMMIT');
  } catch (err) {
    await client.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    client.release();
  }
}

export const router = express.Router();

router.post('/payments/:paymentId/refunds/:refundId', express.json(), async (req, res, next) => {
  const { paymentId, refundId } = req.params;
  const amountCents = Number(req.body?.amountCents);
  if (!Number.isInteger(amountCents) || amountCents <= 0) {
    return res.status(400).json({ error: 'amountCents must be a positive integer' });
  }

  let lease = null;
  try {
    lease = await acquire(paymentId);
    if (!lease) return res.status(409).json({ error: 'another refund is in progress' });

    const { rows } = await pool.query(
      'SELECT provider_charge, amount_cents, refunded_cents FROM payments WHERE id = $1', [paymentId]);
    const payment = rows[0];
    if (!payment) return res.status(404).json({ error: 'unknown payment' });

    const done = await pool.query('SELECT provider_id FROM refunds WHERE id = $1', [refundId]);
    if (done.rowCount) return res.json({ refundId, providerId: done.rows[0].provider_id });

    if (Number(payment.refunded_cents) + amountCents > Number(payment.amount_cents)) {
      return res.status(422).json({ error: 'amount exceeds what is left to refund' });
    }
    if (lease.remaining() < CHARGE_BUDGET_MS) {
      return res.status(503).json({ error: 'try again' });
    }

    const refund = await stripe.refunds.create(
      { charge: payment.provider_charge, amount: amountCents, metadata: { refundId } },
      { idempotencyKey: `refund:${refundId}` },
    );
    await recordRefund(paymentId, refundId, amountCents, refund.id);
    log.info({ paymentId, refundId, amountCents }, 'refunded');
    return res.status(201).json({ refundId, providerId: refund.id });
  } catch (err) {
    return next(err);
  } finally {
    if (lease) await release(lease);
  }
});
