'use strict';

// Takes render jobs from a list and turns contracts into PDFs. Two jobs for the same
// contract (the customer edits and re-submits) must not render at once, because Chromium
// writes its pages to a work directory that is named after the contract.

const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const QUEUE = 'pdf:jobs';
const LOCK_TTL_MS = 20_000;
const RENEW_MS = 5_000;
const MAX_ATTEMPTS = 5;

const RENEW = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 0`;

const RELEASE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0`;

class ContractBusy extends Error {}

async function lockContract(redis, contractId) {
  const key = `pdf:lock:${contractId}`;
  const token = randomUUID();
  let validUntil = Date.now() + LOCK_TTL_MS;

  if ((await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX')) !== 'OK') {
    throw new ContractBusy(`contract ${contractId} is being rendered`);
  }

  const lost = new AbortController();
  const timer = setInterval(() => {
    if (Date.now() + RENEW_MS >= validUntil) {
      clearInterval(timer);
      lost.abort(new Error(`${key}: not renewed in time`));
      return;
    }
    const sentAt = Date.now();
    redis.eval(RENEW, 1, key, token, LOCK_TTL_MS).then(
      (ok) => {
        if (ok === 1) {
          validUntil = Math.max(validUntil, sentAt + LOCK_TTL_MS);
        } else {
          clearInterval(timer);
          lost.abort(new Error(`${key}: lock lost`));
        }
      },
      (err) => console.warn(`pdf worker: renewing ${key}: ${err.message}`),
    );
  }, RENEW_MS);

  return {
    signal: lost.signal,
    async unlock() {
      clearInterval(timer);
      await redis
        .eval(RELEASE, 1, key, token)
        .catch((err) => console.warn(`pdf worker: ${key} not released, expires: ${err.message}`));
    },
  };
}

async function processJob(redis, job, { render, store }) {
  const lock = await lockContract(redis, job.contractId);

  const startedAt = Date.now();
  const pdf = await render(job.contractId, job.revision, { signal: lock.signal });
  lock.signal.throwIfAborted();
  await store.put(`contracts/${job.contractId}/${job.revision}.pdf`, pdf, { signal: lock.signal });
  console.log(`pdf worker: ${job.contractId}@${job.revision} in ${Date.now() - startedAt}ms`);

  await lock.unlock();
}

async function runWorker({ redis, render, store, stopping = () => false }) {
  // The blocking pop needs a connection of its own, or it would hold up the renewals.
  const popper = redis.duplicate();
  try {
    while (!stopping()) {
      const popped = await popper.brpop(QUEUE, 5);
      if (!popped) continue;
      const job = JSON.parse(popped[1]);

      try {
        await processJob(redis, job, { render, store });
      } catch (err) {
        if (err instanceof ContractBusy) {
          // Not the job's fault: back into the queue, does not count as an attempt.
          await redis.lpush(QUEUE, JSON.stringify(job));
          await new Promise((resolve) => setTimeout(resolve, 500));
          continue;
        }
        const attempts = (job.attempts || 0) + 1;
        console.error(`pdf worker: ${job.contractId} attempt ${attempts} failed:`, err.message);
        const target = attempts < MAX_ATTEMPTS ? QUEUE : `${QUEUE}:dead`;
        await redis.lpush(target, JSON.stringify({ ...job, attempts }));
      }
    }
  } finally {
    popper.disconnect();
  }
}

function connect() {
  const redis = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379');
  redis.on('error', (err) => console.error('pdf worker: redis', err.message));
  return redis;
}

module.exports = { runWorker, processJob, lockContract, connect, ContractBusy };
