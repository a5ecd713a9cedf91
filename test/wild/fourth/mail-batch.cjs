'use strict';
const os = require('os');
const { Redis } = require('ioredis');

const OWNER = `${os.hostname()}:${process.pid}`;
const TTL_SECONDS = 30;

const redis = new Redis(process.env.REDIS_URL || 'redis://localhost:6379', { lazyConnect: true });

redis.defineCommand('unlockBatch', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('del', KEYS[1])
    end
    return 0`,
});

function batchKey(campaign, batch) {
  return `mail:${campaign}:batch:${batch}`;
}

async function acquireBatch(campaign, batch) {
  const reply = await redis.set(batchKey(campaign, batch), OWNER, 'EX', TTL_SECONDS, 'NX');
  return reply === 'OK';
}

async function releaseBatch(campaign, batch) {
  const removed = await redis.unlockBatch(batchKey(campaign, batch), OWNER);
  return removed === 1;
}

/** Queue processor, concurrency is set by the worker (10 in production). */
async function processBatch(job, mailer) {
  const { campaign, batch, recipients } = job.data;
  if (!(await acquireBatch(campaign, batch))) {
    throw new Error(`batch ${batch} of ${campaign} is in progress`);
  }
  const failed = [];
  try {
    for (const recipient of recipients) {
      try {
        await mailer.send(campaign, recipient);
      } catch (err) {
        failed.push({ recipient, reason: err.message });
      }
    }
  } finally {
    await releaseBatch(campaign, batch);
  }
  return { sent: recipients.length - failed.length, failed };
}

function chunk(list, size) {
  const out = [];
  for (let i = 0; i < list.length; i += size) out.push(list.slice(i, i + size));
  return out;
}

module.exports = { acquireBatch, releaseBatch, processBatch, chunk };
