'use strict';

const os = require('node:os');
const Redis = require('ioredis');
const mongoose = require('mongoose');
const winston = require('winston');

const log = winston.createLogger({ transports: [new winston.transports.Console()] });
const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2000 });

mongoose.set('bufferCommands', false);
mongoose.connect(process.env.MONGO_URL, {
  serverSelectionTimeoutMS: 3000,
  socketTimeoutMS: 5000,
  waitQueueTimeoutMS: 2000,
  retryReads: false,
  retryWrites: false,
});

const Stock = mongoose.model(
  'Stock',
  new mongoose.Schema({ _id: String, onHand: Number, reserved: Number, log: [Object] }),
);

const LOCK_MS = 60_000;
const OWNER = `${os.hostname()}:${process.pid}`;

// Hash of owner -> depth, after the model of Redisson's RLock.
redis.defineCommand('lockEnter', {
  numberOfKeys: 1,
  lua: `
    if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
      redis.call('hincrby', KEYS[1], ARGV[1], 1)
      redis.call('pexpire', KEYS[1], ARGV[2])
      return 1
    end
    return 0`,
});
redis.defineCommand('lockLeave', {
  numberOfKeys: 1,
  lua: `
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end
    local depth = redis.call('hincrby', KEYS[1], ARGV[1], -1)
    if depth <= 0 then redis.call('del', KEYS[1]) end
    return depth`,
});

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Re-entrant, since writeOff() calls adjust() for a sku that is locked already. */
async function withSku(sku, fn, { waitMs = 5000 } = {}) {
  const key = `stock:${sku}`;
  const until = Date.now() + waitMs;
  while ((await redis.lockEnter(key, OWNER, LOCK_MS)) !== 1) {
    if (Date.now() > until) {
      const err = new Error(`sku ${sku} is locked`);
      err.status = 423;
      throw err;
    }
    await sleep(50 + Math.random() * 100);
  }
  try {
    return await fn();
  } finally {
    await redis.lockLeave(key, OWNER).catch((err) => log.warn('lockLeave', { key, err: err.message }));
  }
}

async function adjust(sku, delta, reason) {
  return withSku(sku, async () => {
    const row = await Stock.findById(sku).lean().maxTimeMS(2000);
    if (!row) throw Object.assign(new Error(`unknown sku ${sku}`), { status: 404 });
    const onHand = row.onHand + delta;
    if (onHand < row.reserved) throw Object.assign(new Error('below reservations'), { status: 422 });
    await Stock.updateOne(
      { _id: sku },
      { $set: { onHand }, $push: { log: { at: new Date(), delta, reason } } },
    ).maxTimeMS(2000);
    return onHand;
  });
}

/** Books breakage: counts first what the shelf scanner saw, then takes the loss off. */
async function writeOff(sku, counted, broken) {
  return withSku(sku, async () => {
    const row = await Stock.findById(sku).lean().maxTimeMS(2000);
    if (!row) throw Object.assign(new Error(`unknown sku ${sku}`), { status: 404 });
    if (row.onHand !== counted) await adjust(sku, counted - row.onHand, 'count');
    return adjust(sku, -broken, 'broken');
  });
}

module.exports = { withSku, adjust, writeOff };
