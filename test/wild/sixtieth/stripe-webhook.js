const express = require('express');
const Redis = require('ioredis');
const Stripe = require('stripe');
const { findOrder, saveOrder, createShipment } = require('./orders');

const stripe = new Stripe(process.env.STRIPE_SECRET_KEY);
const redis = new Redis(process.env.REDIS_URL);
redis.on('error', (err) => console.error('Redis error:', err.message));

const router = express.Router();

// Stripe may send the same event several times, even concurrently.
// The lock makes sure that an order is only handled once at a time.
router.post('/webhooks/stripe', express.raw({ type: 'application/json' }), async (req, res) => {
  let event;
  try {
    event = stripe.webhooks.constructEvent(
      req.body,
      req.headers['stripe-signature'],
      process.env.STRIPE_WEBHOOK_SECRET,
    );
  } catch (err) {
    return res.status(400).send(`Webhook Error: ${err.message}`);
  }

  if (event.type !== 'checkout.session.completed') {
    return res.json({ received: true });
  }

  const orderId = event.data.object.client_reference_id;
  const lockKey = `lock:order:${orderId}`;

  try {
    const acquired = await redis.set(lockKey, event.id, 'EX', 120, 'NX');
    if (!acquired) {
      // Stripe will retry later
      return res.status(409).json({ error: 'Order is already being processed' });
    }

    const order = await findOrder(orderId);
    if (!order) {
      return res.status(404).json({ error: 'Unknown order' });
    }

    if (order.status === 'pending') {
      order.shipmentId = await createShipment(order, { timeout: 30000 });
      order.status = 'paid';
      await saveOrder(order);
    }

    return res.json({ received: true });
  } catch (err) {
    console.error(`Webhook ${event.id} failed:`, err);
    return res.status(500).json({ error: 'Internal error' });
  } finally {
    // Always release the lock
    await redis.del(lockKey).catch((err) => {
      console.error(`Could not release ${lockKey}:`, err.message);
    });
  }
});

module.exports = router;
