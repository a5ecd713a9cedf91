'use strict';

const { randomUUID } = require('node:crypto');
const { DelayedError, Worker } = require('bullmq');
const Redis = require('ioredis');

const connection = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: null });
const store = new Redis(process.env.REDIS_URL);

const LOCK_MS = 30_000;
const RETRY_MS = 1_500;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

async function lockContract(contractId) {
  const key = `lock:contract:${contractId}`;
  const busy = await store.exists(key);
  if (busy) return null;
  const owner = randomUUID();
  await store.set(key, owner, 'PX', LOCK_MS);
  return () => store.eval(UNLOCK, 1, key, owner);
}

function price(tariff, kwh) {
  const day = kwh.day * tariff.dayCents;
  const night = kwh.night * tariff.nightCents;
  return Math.round(day + night);
}

const worker = new Worker(
  'consumption',
  async (job, token) => {
    const { contractId, kwh } = job.data;

    const unlock = await lockContract(contractId);
    if (!unlock) {
      // another worker has this contract, come back a little later
      await job.moveToDelayed(Date.now() + RETRY_MS, token);
      throw new DelayedError();
    }

    try {
      const contractKey = `contract:${contractId}`;
      const appliedKey = `contract:${contractId}:applied`;
      if (await store.sismember(appliedKey, job.id)) return 'already applied';

      const contract = await store.hgetall(contractKey);
      const tariff = JSON.parse(await store.hget('tariffs', contract.tariff));
      const balance = Number(contract.balanceCents) - price(tariff, kwh);

      await store
        .multi()
        .hset(contractKey, 'balanceCents', balance, 'chargedAt', Date.now())
        .sadd(appliedKey, job.id)
        .exec();
      return balance;
    } finally {
      await unlock();
    }
  },
  { connection, concurrency: 20 },
);

worker.on('failed', (job, err) => console.error(`job ${job?.id} failed`, err));

process.once('SIGTERM', async () => {
  await worker.close();
  await Promise.all([connection.quit(), store.quit()]);
});
