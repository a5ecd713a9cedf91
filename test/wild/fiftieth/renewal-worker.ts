import { randomUUID } from 'node:crypto';
import axios from 'axios';
import { DelayedError, Job, Queue, Worker } from 'bullmq';
import Redis from 'ioredis';
import { Pool } from 'pg';

const connection = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: null });
const pool = new Pool({ connectionTimeoutMillis: 3_000, statement_timeout: 5_000, query_timeout: 6_000 });

interface RenewalJob {
  subscriptionId: string;
  source: 'cron' | 'dunning' | 'support';
}

export const renewals = new Queue<RenewalJob>('subscription-renewals', { connection });

/** Used by the nightly cron, by the dunning flow and by the "retry now" button of support. */
export function requestRenewal(subscriptionId: string, source: RenewalJob['source']) {
  return renewals.add('renew', { subscriptionId, source }, { attempts: 3, backoff: { type: 'exponential', delay: 5_000 } });
}

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

async function lock(key: string, ttlMs: number): Promise<(() => Promise<void>) | null> {
  const owner = randomUUID();
  const res = await connection.set(key, owner, 'PX', ttlMs, 'NX');
  if (res !== 'OK') return null;
  return async () => {
    try {
      await connection.eval(UNLOCK, 1, key, owner);
    } catch (err) {
      console.warn(`unlock ${key}`, err);
    }
  };
}

async function renew(subscriptionId: string, requestId: string) {
  const { rows } = await pool.query(
    'SELECT customer_id, price_cents, paid_through FROM subscriptions WHERE id = $1',
    [subscriptionId],
  );
  const sub = rows[0];
  if (!sub || new Date(sub.paid_through) > new Date()) return 'nothing to do';

  const { data } = await axios.post(
    `${process.env.PAYMENTS_URL}/charges`,
    { customer: sub.customer_id, amount: sub.price_cents },
    { timeout: 20_000, headers: { 'Idempotency-Key': requestId } },
  );
  await pool.query(
    `UPDATE subscriptions SET paid_through = paid_through + interval '1 month', last_charge = $2 WHERE id = $1`,
    [subscriptionId, data.id],
  );
  return data.id as string;
}

export const worker = new Worker<RenewalJob>(
  'subscription-renewals',
  async (job: Job<RenewalJob>, bullToken?: string) => {
    const unlock = await lock(`lock:renewal:${job.id}`, 60_000);
    if (!unlock) {
      await job.moveToDelayed(Date.now() + 10_000, bullToken);
      throw new DelayedError();
    }
    try {
      return await renew(job.data.subscriptionId, `renewal-${job.id}`);
    } finally {
      await unlock();
    }
  },
  { connection, concurrency: 8 },
);

worker.on('failed', (job, err) => console.error(`renewal ${job?.data.subscriptionId} failed`, err.message));
