'use strict';
const Redis = require('ioredis');
const Redlock = require('redlock4');
const cron = require('node-cron');
const { stitchScans, exportSheets } = require('../lib/reports');

const {
  REDIS_NODES = 'redis-0,redis-1,redis-2',
  HERBARIUM_CRON = '15 2 * * *',
  JOB_LOCK_TTL = '900',
  JOB_LOCK_MARGIN = '60',
} = process.env;

const opts = {
  ttl: Number(JOB_LOCK_TTL),
  budgetMs: (Number(JOB_LOCK_TTL) - Number(JOB_LOCK_MARGIN)) * 1000,
};

const clients = REDIS_NODES.split(',').map((host) => {
  const client = new Redis({ host, maxRetriesPerRequest: 1 });
  client.on('error', (err) => console.error(`[redis ${host}]`, err.message));
  return client;
});

const redlock = new Redlock(clients, { retryCount: 0 });
redlock.on('clientError', (err) => console.warn('[redlock]', err.message));

// every worker runs this schedule, one of them should do the job
cron.schedule(HERBARIUM_CRON, () => {
  exclusively('herbarium:nightly', async (signal) => {
    const sheets = await stitchScans({ since: yesterday(), signal });
    await exportSheets(sheets, { signal });
    return sheets.length;
  }).then(
    (n) => console.log(n === undefined ? '[nightly] another worker has it' : `[nightly] ${n} sheets exported`),
    (err) => console.error('[nightly] failed', err),
  );
});

async function exclusively(resource, fn) {
  const signal = AbortSignal.timeout(opts.budgetMs);
  let lock;
  try {
    lock = await redlock.lock(resource, opts.ttl);
  } catch (err) {
    if (err.name === 'LockError') return undefined;
    throw err;
  }
  try {
    return await fn(signal);
  } finally {
    await lock.unlock().catch((err) => console.warn(`[redlock] unlock ${resource}:`, err.message));
  }
}

function yesterday() {
  const d = new Date();
  d.setUTCDate(d.getUTCDate() - 1);
  d.setUTCHours(0, 0, 0, 0);
  return d;
}
