const { Worker, UnrecoverableError } = require('bullmq');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const axios = require('axios');
const mongoose = require('mongoose');
const pino = require('pino');

const log = pino({ name: 'order-capture' });

const Order = mongoose.model(
  'Order',
  new mongoose.Schema({
    number: { type: String, index: true },
    status: { type: String, enum: ['authorized', 'captured', 'cancelled'] },
    authorizationId: String,
    totalCents: Number,
    capturedCents: { type: Number, default: 0 },
    captures: [{ captureId: String, shipmentId: String, cents: Number, at: Date }],
  })
);

const lockRedis = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379');
const redlock = new Redlock([lockRedis], {
  driftFactor: 0.01,
  retryCount: 40,
  retryDelay: 250,
  retryJitter: 100,
});
redlock.on('clientError', (err) => log.error({ err }, 'redlock client error'));

const gateway = axios.create({
  baseURL: process.env.PAYMENT_GATEWAY_URL,
  timeout: 8000,
  headers: { authorization: `Bearer ${process.env.PAYMENT_GATEWAY_KEY}` },
});

// Shipments of one order can leave from different warehouses at the same moment, every one
// of them captures its part of the authorized amount.
const LOCK_MS = 30000;

async function capture(orderNumber, cents, shipmentId) {
  const order = await Order.findOne({ number: orderNumber });
  if (!order) throw new UnrecoverableError(`order ${orderNumber} does not exist`);
  if (order.status === 'cancelled') throw new UnrecoverableError(`order ${orderNumber} is cancelled`);

  // job tried again after the update went through
  const earlier = order.captures.find((c) => c.shipmentId === shipmentId);
  if (earlier) return { captureId: earlier.captureId, capturedCents: order.capturedCents };

  const open = order.totalCents - order.capturedCents;
  if (cents > open) {
    throw new UnrecoverableError(`shipment ${shipmentId}: ${cents} exceeds open amount ${open}`);
  }

  // the gateway answers a reference it knows with the first capture
  const { data } = await gateway.post(`/authorizations/${order.authorizationId}/captures`, {
    amount: cents,
    final: cents === open,
    reference: shipmentId,
  });

  const capturedCents = order.capturedCents + cents;
  await Order.updateOne(
    { number: orderNumber },
    {
      $set: { capturedCents, status: capturedCents === order.totalCents ? 'captured' : order.status },
      $push: { captures: { captureId: data.id, shipmentId, cents, at: new Date() } },
    }
  );
  log.info({ orderNumber, shipmentId, cents, capturedCents }, 'captured');
  return { captureId: data.id, capturedCents };
}

async function withOrderLock(orderNumber, fn) {
  const lock = await redlock.lock(`locks:order:${orderNumber}`, LOCK_MS);
  try {
    return fn();
  } finally {
    await lock.unlock().catch((err) => {
      log.warn({ err, orderNumber }, 'unlock failed, waiting for expiry');
    });
  }
}

function startCaptureWorker() {
  const connection = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379', {
    maxRetriesPerRequest: null,
  });
  const worker = new Worker(
    'order-capture',
    async (job) => {
      const { orderNumber, cents, shipmentId } = job.data;
      return withOrderLock(orderNumber, () => capture(orderNumber, cents, shipmentId));
    },
    { connection, concurrency: 8 }
  );
  worker.on('failed', (job, err) => log.error({ err, jobId: job && job.id }, 'capture failed'));
  return worker;
}

module.exports = { startCaptureWorker, withOrderLock, capture };
