import { randomUUID } from 'node:crypto';
import express from 'express';
import mongoose from 'mongoose';
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (e) => console.error('redis', e.message));
await redis.connect();
await mongoose.connect(process.env.MONGO_URL, { socketTimeoutMS: 4000, serverSelectionTimeoutMS: 3000 });

const Wallet = mongoose.model('Wallet', new mongoose.Schema({
  owner: { type: String, unique: true },
  balance: { type: Number, default: 0 },
  currency: String,
  frozen: { type: Boolean, default: false },
  entries: [{ amount: Number, reason: String, at: Date }],
}));

const LUA_UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function acquireWallet(owner) {
  const key = `wallet:${owner}:lock`;
  const token = randomUUID();
  const end = Date.now() + 3000;
  for (;;) {
    if ((await redis.set(key, token, { NX: true, PX: 20000 })) === 'OK') return { key, token };
    if (Date.now() > end) return null;
    await new Promise((r) => setTimeout(r, 30 + Math.random() * 70));
  }
}

async function releaseWallet({ key, token }) {
  try {
    await redis.eval(LUA_UNLOCK, { keys: [key], arguments: [token] });
  } catch (e) {
    console.warn('wallet unlock', key, e.message);
  }
}

const app = express();
app.use(express.json());

app.post('/wallets/:owner/debit', async (req, res, next) => {
  try {
    const amount = Number(req.body.amount);
    if (!Number.isInteger(amount) || amount <= 0) return res.status(400).json({ error: 'amount' });

    const wallet = await Wallet.findOne({ owner: req.params.owner }).maxTimeMS(3000).lean();
    if (!wallet) return res.status(404).json({ error: 'no wallet' });
    if (wallet.frozen) return res.status(403).json({ error: 'wallet is frozen' });

    const lock = await acquireWallet(wallet.owner);
    if (!lock) return res.status(409).json({ error: 'wallet is in use' });
    try {
      if (wallet.balance < amount) return res.status(402).json({ error: 'insufficient funds' });

      const balance = wallet.balance - amount;
      await Wallet.updateOne({ _id: wallet._id }, {
        $set: { balance },
        $push: { entries: { amount: -amount, reason: req.body.reason, at: new Date() } },
      }).maxTimeMS(3000);
      return res.json({ balance, currency: wallet.currency });
    } finally {
      await releaseWallet(lock);
    }
  } catch (e) {
    next(e);
  }
});

app.listen(process.env.PORT ?? 8080);
