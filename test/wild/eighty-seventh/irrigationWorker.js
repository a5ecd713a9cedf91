// books water for a field against the farm's yearly allotment, valve box polls valve_orders
const { Worker, UnrecoverableError } = require('bullmq');
const Redis = require('ioredis');
const { Mutex } = require('redis-semaphore');
const knex = require('knex');
const cfg = require('../config');

const conn = { host: cfg.redis.host, port: cfg.redis.port };
const redis = new Redis({ ...conn, maxRetriesPerRequest: 2, commandTimeout: 3000 });
redis.on('error', (e) => console.log('redis', e.message));
const db = knex({ client: 'pg', connection: { ...cfg.pg, statement_timeout: 4000 } });

async function water(job) {
  const { farmId, fieldId, m3 } = job.data;
  console.log('job', job.id, 'farm', farmId, 'field', fieldId, m3, 'm3');

  const season = new Date(job.timestamp).getFullYear();
  const allot = await db('allotments').where({ farm_id: farmId, season }).first();
  if (!allot) throw new UnrecoverableError(`no allotment ${farmId}/${season}`);

  const field = await db('fields').where({ id: fieldId, farm_id: farmId }).first();
  if (!field) throw new UnrecoverableError(`field ${fieldId} is not on farm ${farmId}`);

  // one booking per farm at a time
  let lost = null;
  const mutex = new Mutex(redis, `water:farm:${farmId}:${season}`, {
    lockTimeout: 15000,
    acquireTimeout: 30000,
    retryInterval: 100,
    onLockLost: (e) => {
      console.log('lock lost', farmId, e.message);
      lost = e;
    },
  });
  await mutex.acquire();
  try {
    return await db.transaction(async (trx) => {
      // same job can come twice after a stall
      const ins = await trx('valve_orders')
        .insert({ job_id: job.id, field_id: fieldId, valve: field.valve_no, m3 })
        .onConflict('job_id')
        .ignore()
        .returning('job_id');
      if (!ins.length) {
        console.log('job', job.id, 'was booked before');
        return { booked: true };
      }

      const used = Number(allot.used_m3) + Number(m3);
      if (used > Number(allot.limit_m3)) {
        throw new UnrecoverableError(`farm ${farmId} over limit: ${used} > ${allot.limit_m3}`);
      }
      await trx('allotments').where({ id: allot.id }).update({ used_m3: used, updated_at: trx.fn.now() });

      if (lost) throw lost;
      return { booked: true, left: Number(allot.limit_m3) - used };
    });
  } finally {
    await mutex.release().catch((e) => console.log('release', e.message));
  }
}

const worker = new Worker('irrigation', water, {
  connection: { ...conn, maxRetriesPerRequest: null },
  concurrency: 12,
});

worker.on('completed', (job, r) => console.log('ok', job.id, r));
worker.on('failed', (job, e) => console.log('FAILED', job && job.id, e.message));

process.on('SIGTERM', async () => {
  console.log('closing worker');
  await worker.close();
  await Promise.all([redis.quit(), db.destroy()]);
});
