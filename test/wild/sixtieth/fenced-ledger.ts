import { randomUUID } from 'node:crypto';
import { Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import { Pool } from 'pg';

// The lock and its fencing number are taken in one step. The counter never
// expires; the hash tag keeps both keys in one cluster slot.
const ACQUIRE = `
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('incr', KEYS[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class Busy extends Error {}
export class StaleFence extends Error {}

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000 });
redis.on('error', (err) => console.error('redis', err.message));
const db = new Pool();

async function withFence<T>(name: string, ttlMs: number, work: (fence: number) => Promise<T>): Promise<T> {
  const lockKey = `{${name}}:lock`;
  const token = randomUUID();
  const release = () =>
    redis.eval(RELEASE, 1, lockKey, token).catch((err: Error) => {
      console.warn(`release of ${lockKey} failed`, err.message);
    });

  let fence: number;
  try {
    fence = Number(await redis.eval(ACQUIRE, 2, lockKey, `{${name}}:fence`, token, ttlMs));
  } catch (err) {
    await release();
    throw err;
  }
  if (fence === 0) throw new Busy(name);
  try {
    return await work(fence);
  } finally {
    await release();
  }
}

interface Rebalance {
  accountId: string;
}

async function rebalance({ accountId }: Rebalance): Promise<void> {
  await withFence(`account:${accountId}`, 30_000, async (fence) => {
    // Announce our number before reading, so that older holders are shut out from here on.
    const claimed = await db.query(
      'update accounts set fence = $2 where id = $1 and fence < $2 returning positions',
      [accountId, fence],
    );
    if (claimed.rowCount === 0) throw new StaleFence(accountId);

    const next = await computeTargets(claimed.rows[0].positions);

    // We may have been paused for longer than the ttl: write only if nobody came after us.
    const written = await db.query(
      'update accounts set positions = $3 where id = $1 and fence = $2',
      [accountId, fence, JSON.stringify(next)],
    );
    if (written.rowCount === 0) throw new StaleFence(accountId);
  });
}

async function computeTargets(positions: unknown): Promise<unknown> {
  const res = await fetch(process.env.MODEL_URL!, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(positions),
    signal: AbortSignal.timeout(15_000),
  });
  if (!res.ok) throw new Error(`model answered ${res.status}`);
  return res.json();
}

// Busy and StaleFence fail the job; BullMQ tries again with the back-off of the queue.
export const worker = new Worker('rebalance', (job: Job<Rebalance>) => rebalance(job.data), {
  connection: { url: process.env.QUEUE_REDIS_URL! },
  concurrency: 4,
});
worker.on('failed', (job, err) => console.error(`job ${job?.id} failed`, err.message));
worker.on('error', (err) => console.error('worker', err.message));
