const express = require('express');
const Redis = require('ioredis');
const Stripe = require('stripe');
const { Pool } = require('pg');

const stripe = new Stripe(process.env.STRIPE_KEY, { timeout: 8000, maxNetworkRetries: 0 });
const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool();
const app = express();
app.use(express.json());

const DAY = 86400;

// partial refunds: a visitor may give back some of the tickets of an order
app.post('/orders/:order/refunds', async (req, res) => {
  const idem = req.get('idempotency-key');
  if (!idem || idem.length > 80) return res.status(400).json({ error: 'idempotency-key missing' });
  const count = Number(req.body.tickets);
  if (!Number.isInteger(count) || count < 1) return res.status(400).json({ error: 'how many tickets?' });

  const key = `refund:${req.params.order}:${idem}`;
  try {
    const fresh = await redis.set(key, 'pending', 'EX', DAY, 'NX');
    if (fresh !== 'OK') {
      const seen = await redis.get(key);
      if (!seen || seen === 'pending') return res.status(409).json({ error: 'in progress' });
      return res.json(JSON.parse(seen));
    }
  } catch (e) {
    console.error('redis', e.message);
    return res.status(503).json({ error: 'try again' });
  }

  try {
    const { rows } = await pool.query('SELECT payment_intent, unit_cents FROM orders WHERE id = $1', [req.params.order]);
    if (!rows.length) {
      await redis.del(key);
      return res.status(404).json({ error: 'no such order' });
    }

    const refund = await stripe.refunds.create({
      payment_intent: rows[0].payment_intent,
      amount: rows[0].unit_cents * count,
      metadata: { order: req.params.order, tickets: count },
    });
    await pool.query('INSERT INTO refunds (id, order_id, tickets, cents) VALUES ($1,$2,$3,$4)', [
      refund.id, req.params.order, count, refund.amount,
    ]);

    const body = { refund: refund.id, cents: refund.amount };
    await redis.set(key, JSON.stringify(body), 'EX', DAY);
    return res.json(body);
  } catch (e) {
    console.error('refund', req.params.order, e.message);
    // let the kiosk send it again
    await redis.del(key).catch(() => {});
    return res.status(502).json({ error: 'refund failed, try again' });
  }
});

app.listen(process.env.PORT || 4000);
