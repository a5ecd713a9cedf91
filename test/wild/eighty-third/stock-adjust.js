import { randomUUID } from 'node:crypto';
import { Router } from 'express';
import { createClient } from 'redis';
import { MongoClient } from 'mongodb';

const redis = await createClient({ url: process.env.REDIS_URL }).connect();
const mongo = await new MongoClient(process.env.MONGO_URL, { socketTimeoutMS: 5000 }).connect();
const stock = mongo.db('shop').collection('stock');
const audit = mongo.db('shop').collection('stock_audit');

const DEL_IF_MINE =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

async function lock(key, ttl = 20000, tries = 25) {
  const token = randomUUID();
  for (let i = 0; i < tries; i++) {
    if (await redis.set(key, token, { NX: true, PX: ttl })) return token;
    await new Promise((r) => setTimeout(r, 80 + Math.random() * 80));
  }
  return null;
}

export const router = Router();

router.patch('/stock/:warehouse/:sku', async (req, res, next) => {
  const { warehouse, sku } = req.params;
  const delta = Number(req.body.delta);
  if (!Number.isInteger(delta)) return res.status(400).json({ error: 'delta must be a whole number' });

  const key = `stock:${warehouse}:${sku}`;
  try {
    const item = await stock.findOne({ warehouse, sku });
    if (!item) return res.status(404).end();

    const token = await lock(key);
    if (!token) return res.status(409).json({ error: 'busy' });

    try {
      const quantity = item.quantity + delta;
      if (quantity < 0) return res.status(422).json({ error: 'not enough stock' });
      await stock.updateOne({ _id: item._id }, { $set: { quantity, updatedAt: new Date() } });
      await audit.insertOne({ itemId: item._id, delta, quantity, by: req.user.id, at: new Date() });
      return res.json({ sku, warehouse, quantity });
    } finally {
      await redis.eval(DEL_IF_MINE, { keys: [key], arguments: [token] });
    }
  } catch (err) {
    return next(err);
  }
});
