// Redlock over independent Redis masters.
//   REDIS_NODES=redis://10.0.0.1:6379,redis://10.0.0.2:6379,redis://10.0.0.3:6379
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const CLOCK_DRIFT_FACTOR = 0.01;
const NODE_TIMEOUT_MS = 200;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`;

const urls = [...new Set((process.env.REDIS_NODES ?? 'redis://localhost:6379').split(',').map((u) => u.trim()))];

const nodes = urls.map((url) => {
  const redis = new Redis(url, { maxRetriesPerRequest: 1 });
  redis.on('error', (err) => console.warn(`redis ${url}: ${err.message}`));
  return redis;
});

const quorum = Math.floor(nodes.length / 2) + 1;

// A node that does not answer quickly counts as a "no".
function withTimeout(promise) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('node timed out')), NODE_TIMEOUT_MS);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

async function releaseEverywhere(resource, value) {
  await Promise.allSettled(nodes.map((node) => withTimeout(node.eval(RELEASE, 1, resource, value))));
}

async function attempt(resource, ttl) {
  const value = randomBytes(20).toString('hex');
  const start = performance.now();

  const answers = await Promise.allSettled(
    nodes.map((node) => withTimeout(node.set(resource, value, 'PX', ttl, 'NX'))),
  );
  const votes = answers.filter((a) => a.status === 'fulfilled' && a.value === 'OK').length;

  const drift = Math.round(CLOCK_DRIFT_FACTOR * ttl) + 2;
  const validUntil = start + ttl - drift;

  if (votes >= quorum && performance.now() < validUntil) {
    return { resource, value, validUntil };
  }
  await releaseEverywhere(resource, value);
  return null;
}

/** Resolves to a lock, or throws after `retries` attempts. */
export async function lock(resource, ttl, { retries = 10, retryDelay = 200 } = {}) {
  for (let i = 0; i <= retries; i++) {
    const held = await attempt(resource, ttl);
    if (held) return held;
    // random delay, so that competing clients do not stay in step
    await sleep(retryDelay + Math.floor(Math.random() * retryDelay));
  }
  throw new Error(`no quorum for ${resource}`);
}

export function isValid(held) {
  return performance.now() < held.validUntil;
}

export async function unlock(held) {
  held.validUntil = 0;
  await releaseEverywhere(held.resource, held.value);
}
