'use strict';
const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const TTL_MS = 12_000;
const EVERY_MS = 3_000;
const MARGIN_MS = 500;

const redis = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379', { lazyConnect: true });
redis.on('error', (err) => console.error('redis', err.message));

redis.defineCommand('keepLock', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`,
});
redis.defineCommand('dropLock', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
});

const counters = { done: 0, busy: 0, lost: 0 };

function guardLock(key, token, firstDeadline) {
  const controller = new AbortController();
  let deadline = firstDeadline;
  let expiry;
  let ticker;

  const stop = () => {
    clearTimeout(expiry);
    clearInterval(ticker);
  };
  const lose = (why) => {
    stop();
    if (controller.signal.aborted) return;
    counters.lost++;
    controller.abort(new Error(`lock ${key} lost: ${why}`));
  };
  const arm = () => {
    clearTimeout(expiry);
    const left = deadline - performance.now();
    if (left <= 0) return lose('ran out');
    expiry = setTimeout(lose, left, 'ran out');
  };

  let stopped = false;
  ticker = setInterval(async () => {
    const sentAt = performance.now();
    try {
      const kept = await redis.keepLock(key, token, TTL_MS);
      if (stopped || controller.signal.aborted) return;
      if (kept !== 1) return lose('someone else has it');
      deadline = Math.max(deadline, sentAt + TTL_MS - MARGIN_MS);
      arm();
    } catch (err) {
      console.warn('keepLock failed, trying again', err.message);
    }
  }, EVERY_MS);
  arm();

  return {
    signal: controller.signal,
    stop() {
      stopped = true;
      stop();
    },
  };
}

/** BullMQ style processor. render(invoiceId, signal) has to honour the signal. */
async function process_(job, render) {
  const key = `invoice-lock:${job.data.invoiceId}`;
  const token = randomUUID();
  const sentAt = performance.now();
  const ok = await redis.set(key, token, 'PX', TTL_MS, 'NX');
  if (ok !== 'OK') {
    counters.busy++;
    throw new Error(`invoice ${job.data.invoiceId} is busy`);
  }
  const guard = guardLock(key, token, sentAt + TTL_MS - MARGIN_MS);
  try {
    guard.signal.throwIfAborted();
    const pdf = await render(job.data.invoiceId, guard.signal);
    guard.signal.throwIfAborted();
    counters.done++;
    return pdf;
  } finally {
    guard.stop();
    await redis.dropLock(key, token).catch((err) => console.warn('dropLock', err.message));
  }
}

module.exports = { process: process_, counters };
