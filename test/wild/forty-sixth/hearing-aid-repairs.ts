import { randomBytes } from 'node:crypto';
import { DelayedError, Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import axios from 'axios';
import { Device } from './models/device';
import { logger } from './logger';

const connection = new Redis(process.env.QUEUE_REDIS_URL!, { maxRetriesPerRequest: null });
const locks = new Redis(process.env.LOCK_REDIS_URL!, { maxRetriesPerRequest: 1, commandTimeout: 1_000 });

const TTL_MS = 30_000;
const MARGIN_MS = 2_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

interface Held {
  key: string;
  token: string;
  until: number;
}

async function acquire(serial: string): Promise<Held | null> {
  const key = `device:${serial}:lock`;
  const token = randomBytes(18).toString('base64url');
  // Time counts from the first send, whichever of the attempts took effect.
  const until = performance.now() + TTL_MS - MARGIN_MS;
  let failure: unknown;
  for (let i = 0; i < 3; i++) {
    try {
      if ((await locks.set(key, token, 'PX', TTL_MS, 'NX')) === 'OK') return { key, token, until };
      // A previous attempt may have got through although its answer did not.
      if ((await locks.get(key)) === token) return { key, token, until };
      return null;
    } catch (err) {
      failure = err;
    }
  }
  throw failure;
}

async function release(held: Held): Promise<void> {
  try {
    await locks.eval(RELEASE, 1, held.key, held.token);
  } catch (err) {
    logger.warn({ err, key: held.key }, 'device lock left to expire');
  }
}

async function repair(job: Job<{ serial: string; fault: string }>, held: Held) {
  const { serial, fault } = job.data;
  const device = await Device.findOne({ serial }).maxTimeMS(3_000).orFail();
  if (device.repairs.some((r) => r.jobId === job.id)) return { already: true };
  if (device.state !== 'received') throw new Error(`device ${serial} is ${device.state}`);

  const remaining = held.until - performance.now();
  if (remaining < 5_000) throw new Error('lock too old to start the repair order');
  const { data } = await axios.post(
    `${process.env.LAB_URL}/orders`,
    { serial, fault, model: device.model },
    {
      headers: { 'Idempotency-Key': `repair-${job.id}` },
      signal: AbortSignal.timeout(Math.floor(remaining - 4_000)),
    },
  );

  const res = await Device.updateOne(
    { _id: device._id, state: 'received', revision: device.revision },
    {
      $set: { state: 'at_lab' },
      $inc: { revision: 1 },
      $push: { repairs: { jobId: job.id, order: data.orderNo, at: new Date() } },
    },
  ).maxTimeMS(3_000);
  if (res.modifiedCount !== 1) throw new Error(`device ${serial} changed during the repair order`);
  return { order: data.orderNo };
}

export const worker = new Worker(
  'hearing-aid-repairs',
  async (job, token) => {
    const held = await acquire(job.data.serial);
    if (!held) {
      await job.moveToDelayed(Date.now() + 5_000, token);
      throw new DelayedError();
    }
    try {
      return await repair(job, held);
    } finally {
      await release(held);
    }
  },
  { connection, concurrency: 8, lockDuration: 60_000 },
);

worker.on('failed', (job, err) => logger.error({ err, job: job?.id }, 'repair job failed'));
