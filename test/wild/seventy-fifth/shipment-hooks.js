'use strict';

// Fastify plugin: POST /hooks/shipments, called by the carrier for each change of a parcel.
// The carrier repeats a call for two days until it gets a 2xx.

const fp = require('fastify-plugin');
const Redis = require('ioredis');
const { createHmac, timingSafeEqual } = require('crypto');
const config = require('./config');
const { notifyCustomer } = require('./notify');

const DEDUPE_TTL = 3 * 24 * 60 * 60; // seconds

const schema = {
  body: {
    type: 'object',
    required: ['eventId', 'trackingCode', 'status', 'occurredAt'],
    properties: {
      eventId: { type: 'string', maxLength: 64 },
      trackingCode: { type: 'string' },
      status: { enum: ['picked_up', 'in_transit', 'delivered', 'returned'] },
      occurredAt: { type: 'string', format: 'date-time' },
    },
  },
};

function verify(req) {
  const given = Buffer.from(String(req.headers['x-carrier-signature'] || ''), 'hex');
  const wanted = createHmac('sha256', config.carrierSecret).update(req.rawBody).digest();
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

module.exports = fp(async function shipmentHooks(app) {
  const redis = new Redis(config.redisUrl, { maxRetriesPerRequest: 2 });
  redis.on('error', (err) => app.log.warn({ err }, 'redis'));
  app.addHook('onClose', () => redis.quit());

  app.post('/hooks/shipments', { schema, config: { rawBody: true } }, async (req, reply) => {
    if (!verify(req)) return reply.code(401).send({ error: 'signature' });

    const { eventId, trackingCode, status, occurredAt } = req.body;

    // SET NX + EX in one command: exactly one of several parallel deliveries gets the OK
    const first = await redis.set(`hook:shipment:${eventId}`, status, 'EX', DEDUPE_TTL, 'NX');
    if (first !== 'OK') {
      req.log.info({ eventId }, 'duplicate delivery');
      return reply.code(200).send({ duplicate: true });
    }

    const { rows } = await app.pg.query(
      `UPDATE shipments SET status = $2, status_at = $3
        WHERE tracking_code = $1 AND status_at < $3
        RETURNING order_id, customer_id`,
      [trackingCode, status, occurredAt]
    );

    if (rows.length > 0 && status === 'delivered') {
      await app.pg.query('INSERT INTO review_requests (order_id, due_at) VALUES ($1, now() + interval \'5 days\')', [
        rows[0].order_id,
      ]);
    }
    if (rows.length > 0) {
      await notifyCustomer(rows[0].customer_id, { trackingCode, status });
    }

    req.log.info({ eventId, trackingCode, status }, 'shipment updated');
    return reply.code(200).send({ ok: true });
  });

  app.setErrorHandler((err, req, reply) => {
    req.log.error({ err }, 'hook failed');
    // a 5xx makes the carrier try again
    reply.code(err.statusCode || 500).send({ error: err.code || 'internal' });
  });
});
