import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Queue, Worker, type Job } from 'bullmq';
import Redis from 'ioredis';
import knex from 'knex';

interface Reading {
  readingId: string;
  meterId: string;
  kwh: number;
  readAt: string;
}

const connection = { url: process.env.REDIS_URL ?? 'redis://localhost:6379' };
const redis = new Redis(connection.url);
const db = knex({ client: 'pg', connection: process.env.DATABASE_URL, pool: { min: 0, max: 10 } });

export const readings = new Queue<Reading>('meter-readings', {
  connection,
  defaultJobOptions: { attempts: 20, backoff: { type: 'exponential', delay: 1_000 } },
});

const LOCK_MS = 30_000;
const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function acquire(key: string): Promise<string> {
  const token = randomUUID();
  for (let i = 0; i < 50; i++) {
    if ((await redis.set(key, token, 'PX', LOCK_MS, 'NX')) === 'OK') return token;
    await sleep(50 + Math.random() * 100);
  }
  throw new Error(`${key} is taken`); // BullMQ tries the job again
}

async function release(key: string, token: string): Promise<void> {
  await redis.eval(RELEASE, 1, key, token).catch((err) => console.warn('release of %s', key, err));
}

async function book(job: Job<Reading>): Promise<void> {
  const { readingId, meterId, kwh, readAt } = job.data;
  const key = `meter:${meterId}:lock`;

  await db.transaction(async (trx) => {
    await trx.raw("SET LOCAL statement_timeout = '4s'");
    const token = await acquire(key);
    try {
      const seen = await trx('readings').where({ id: readingId }).first('id');
      if (seen) return;

      const account = await trx('meter_accounts').where({ meter_id: meterId }).first('last_kwh', 'owed_cents', 'rate');
      if (!account) throw new Error(`no account for meter ${meterId}`);
      const used = Math.max(0, kwh - Number(account.last_kwh));

      await trx('readings').insert({ id: readingId, meter_id: meterId, kwh, read_at: readAt });
      await trx('meter_accounts')
        .where({ meter_id: meterId })
        .update({
          last_kwh: Math.max(kwh, Number(account.last_kwh)),
          owed_cents: Number(account.owed_cents) + Math.round(used * Number(account.rate)),
        });
    } finally {
      await release(key, token);
    }
  });
}

const worker = new Worker<Reading>('meter-readings', book, { connection, concurrency: 8 });
worker.on('failed', (job, err) => console.warn('reading %s: %s', job?.data.readingId, err.message));

process.once('SIGTERM', async () => {
  await worker.close();
  await db.destroy();
  await redis.quit();
});
