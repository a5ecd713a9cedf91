'use strict';

require('dotenv').config();
const express = require('express');
const mongoose = require('mongoose');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const winston = require('winston');

const logger = winston.createLogger({ transports: [new winston.transports.Console()] });

const Stock = mongoose.model(
  'Stock',
  new mongoose.Schema(
    {
      sku: { type: String, unique: true },
      revision: { type: Number, default: 0 },
      bins: [{ _id: false, warehouse: String, free: Number }],
      reservations: [{ _id: false, orderId: String, picks: [{ _id: false, warehouse: String, quantity: Number }] }],
    },
    { versionKey: false },
  ),
);

const redlock = new Redlock([new Redis(process.env.REDIS_URL)], {
  driftFactor: 0.01,
  retryCount: 15,
  retryDelay: 150,
  retryJitter: 100,
});
redlock.on('clientError', (err) => logger.warn('redlock client', { message: err.message }));

function pickFrom(bins, quantity) {
  const left = bins.map((b) => ({ ...b }));
  const picks = [];
  let open = quantity;
  // as few parcels as possible: largest bins first
  for (const bin of [...left].sort((a, b) => b.free - a.free)) {
    if (open === 0) break;
    const n = Math.min(open, bin.free);
    if (n === 0) continue;
    bin.free -= n;
    open -= n;
    picks.push({ warehouse: bin.warehouse, quantity: n });
  }
  return open === 0 ? { picks, bins: left } : null;
}

async function reserve(sku, orderId, quantity) {
  const lock = await redlock.lock(`locks:stock:${sku}`, 8000);
  try {
    const stock = await Stock.findOne({ sku }).lean().maxTimeMS(2000);
    if (!stock) return { status: 404, error: 'unknown sku' };

    const existing = stock.reservations.find((r) => r.orderId === orderId);
    if (existing) return { status: 200, picks: existing.picks };

    const plan = pickFrom(stock.bins, quantity);
    if (!plan) return { status: 409, error: 'out of stock' };

    const saved = await Stock.updateOne(
      { _id: stock._id, revision: stock.revision },
      {
        $set: { bins: plan.bins },
        $push: { reservations: { orderId, picks: plan.picks } },
        $inc: { revision: 1 },
      },
    );
    if (saved.modifiedCount !== 1) return { status: 503, error: 'stock changed meanwhile, try again' };
    return { status: 201, picks: plan.picks };
  } finally {
    lock.unlock().catch((err) => logger.info('unlock', { sku, message: err.message }));
  }
}

const app = express();
app.use(express.json());

app.put('/stock/:sku/reservations/:orderId', async (req, res, next) => {
  const quantity = Number(req.body.quantity);
  if (!Number.isInteger(quantity) || quantity < 1) return res.status(400).json({ error: 'quantity' });
  try {
    const { status, ...body } = await reserve(req.params.sku, req.params.orderId, quantity);
    return res.status(status).json(body);
  } catch (err) {
    if (err instanceof Redlock.LockError) return res.status(503).json({ error: 'busy, try again' });
    return next(err);
  }
});

mongoose.connect(process.env.MONGO_URL).then(() => app.listen(process.env.PORT || 3000));
