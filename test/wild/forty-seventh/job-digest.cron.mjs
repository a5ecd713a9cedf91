import cron from 'node-cron';
import mongoose from 'mongoose';
import { createClient } from 'redis';
import { nanoid } from 'nanoid';
import { sendDigest } from '../mail/digest.mjs';
import { Subscriber } from '../models/subscriber.mjs';
import logger from '../logger.mjs';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => logger.error({ err }, 'redis'));
await redis.connect();

const DigestRun = mongoose.model('DigestRun', new mongoose.Schema({ _id: String, finishedAt: Date, sent: Number }));

const deliverySchema = new mongoose.Schema({ day: String, subscriber: mongoose.ObjectId, at: { type: Date, default: Date.now } });
deliverySchema.index({ day: 1, subscriber: 1 }, { unique: true });
const Delivery = mongoose.model('DigestDelivery', deliverySchema);
await Delivery.init();

const TTL_MS = 60_000;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

async function claimDelivery(day, subscriber) {
  try {
    await Delivery.create({ day, subscriber });
    return true;
  } catch (err) {
    if (err.code === 11000) return false;
    throw err;
  }
}

async function sendAll(day, lease) {
  let sent = 0;
  for await (const sub of Subscriber.find({ active: true }).sort({ _id: 1 }).lean().cursor()) {
    if (lease.lost()) throw new Error(`digest lease lost after ${sent} mails`);
    // claimed before sending: rather miss one digest than send it twice
    if (!(await claimDelivery(day, sub._id))) continue;
    try {
      await sendDigest(sub, day);
      sent += 1;
    } catch (err) {
      logger.warn({ err, subscriber: sub._id }, 'digest mail failed');
    }
  }
  return sent;
}

async function runDigest() {
  const day = new Date().toISOString().slice(0, 10);
  const key = `cron:job-digest:${day}`;
  const token = nanoid();
  let validUntil = performance.now() + TTL_MS - 5_000;

  const got = await redis.set(key, token, { NX: true, PX: TTL_MS });
  if (got !== 'OK') return;

  let taken = false;
  const timer = setInterval(async () => {
    const at = performance.now();
    try {
      const kept = await redis.eval(EXTEND, { keys: [key], arguments: [token, String(TTL_MS)] });
      if (kept === 1) validUntil = at + TTL_MS - 5_000;
      else taken = true;
    } catch (err) {
      logger.warn({ err, key }, 'digest lease not extended');
    }
  }, TTL_MS / 4);

  try {
    if (await DigestRun.exists({ _id: day })) return;
    const sent = await sendAll(day, { lost: () => taken || performance.now() >= validUntil });
    await DigestRun.updateOne({ _id: day }, { $setOnInsert: { finishedAt: new Date(), sent } }, { upsert: true });
    logger.info({ day, sent }, 'digest finished');
  } finally {
    clearInterval(timer);
    await redis
      .eval(RELEASE, { keys: [key], arguments: [token] })
      .catch((err) => logger.warn({ err, key }, 'digest lease not released'));
  }
}

// every ten minutes from six to nine, so that an interrupted run is picked up again
cron.schedule('*/10 6-8 * * *', () => {
  runDigest().catch((err) => logger.error({ err }, 'digest run failed'));
}, { timezone: 'Etc/UTC' });
