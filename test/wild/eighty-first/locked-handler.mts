import { randomUUID } from 'node:crypto';
import { Worker, type Job } from 'bullmq';
import { createClient } from 'redis';
import { MongoClient } from 'mongodb';
import { lockContention, lockHeldSeconds } from './metrics.js';

const redis = await createClient({ url: process.env.REDIS_URL }).connect();
const members = new MongoClient(process.env.MONGO_URL!, { socketTimeoutMS: 5_000 })
  .db('loyalty')
  .collection<{ _id: string; points: number; tier: string }>('members');

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

type Handler<D, R> = (job: Job<D>) => Promise<R>;

export class LockBusy extends Error {
  constructor(readonly key: string) {
    super(`${key} is locked`);
  }
}

export function locked<D, R>(keyOf: (data: D) => string, ttlMs: number, handler: Handler<D, R>): Handler<D, R> {
  return async (job) => {
    const key = `lock:${keyOf(job.data)}`;
    const token = randomUUID();
    const reply = await redis.set(key, token, { NX: true, PX: ttlMs });
    if (reply !== 'OK') {
      lockContention.inc({ queue: job.queueName });
      throw new LockBusy(key);
    }
    const done = lockHeldSeconds.startTimer({ queue: job.queueName });
    try {
      return handler(job);
    } finally {
      await redis.eval(RELEASE, { keys: [key], arguments: [token] });
      done();
    }
  };
}

interface Purchase {
  memberId: string;
  cents: number;
}

const tierFor = (points: number) => (points >= 50_000 ? 'gold' : points >= 10_000 ? 'silver' : 'basic');

export const worker = new Worker<Purchase>(
  'loyalty-purchases',
  locked<Purchase, number>(
    (p) => `member:${p.memberId}`,
    30_000,
    async ({ data }) => {
      const member = await members.findOne({ _id: data.memberId });
      if (!member) throw new Error(`no member ${data.memberId}`);
      const points = member.points + Math.floor(data.cents / 100);
      await members.updateOne({ _id: member._id }, { $set: { points, tier: tierFor(points) } });
      return points;
    },
  ),
  { connection: { url: process.env.REDIS_URL! }, concurrency: 20 },
);
