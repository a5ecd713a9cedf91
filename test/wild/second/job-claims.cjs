'use strict';

const crypto = require('crypto');
const Redis = require('ioredis');

const CLAIM_SECONDS = parseInt(process.env.JOB_CLAIM_SECONDS || '60', 10);

const redis = new Redis({
  host: process.env.REDIS_HOST || '127.0.0.1',
  port: Number(process.env.REDIS_PORT || 6379),
  keyPrefix: 'jobs:',
});

redis.defineCommand('dropClaim', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('del', KEYS[1])
    end
    return 0
  `,
});

redis.defineCommand('keepClaim', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('expire', KEYS[1], ARGV[2])
    end
    return 0
  `,
});

// SQS delivers at least once, so two workers can hold the same message.
async function claim(jobId) {
  const key = `claim:${jobId}`;
  const token = crypto.randomBytes(16).toString('base64url');
  const at = Date.now();
  let ok;
  try {
    ok = await redis.set(key, token, 'EX', CLAIM_SECONDS, 'NX');
  } catch (e) {
    await redis.dropClaim(key, token).catch(() => {});
    throw e;
  }
  if (ok !== 'OK') return null;
  const c = { jobId, key, token, until: at + CLAIM_SECONDS * 1000 - 1000 };
  if (Date.now() >= c.until) {
    await redis.dropClaim(key, token).catch(() => {});
    return null;
  }
  return c;
}

/** call between the steps of a long job; false: stop, somebody else may have it */
async function heartbeat(c) {
  if (Date.now() >= c.until) return false;
  const at = Date.now();
  const n = await redis.keepClaim(c.key, c.token, CLAIM_SECONDS);
  if (n !== 1) {
    c.until = 0;
    return false;
  }
  c.until = at + CLAIM_SECONDS * 1000 - 1000;
  return Date.now() < c.until;
}

async function finish(c) {
  c.until = 0;
  return (await redis.dropClaim(c.key, c.token)) === 1;
}

module.exports = { claim, heartbeat, finish };
