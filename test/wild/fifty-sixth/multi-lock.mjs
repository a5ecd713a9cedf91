import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { createClient } from 'redis';
import winston from 'winston';

const logger = winston.createLogger({ transports: [new winston.transports.Console()] });

// three standalone masters, one per availability zone
const urls = (process.env.LOCK_NODES ?? '').split(',').filter(Boolean);

const nodes = await Promise.all(
  urls.map(async (url) => {
    const client = createClient({ url, disableOfflineQueue: true });
    client.on('error', (err) => logger.debug('lock node', { url, message: err.message }));
    client.connect().catch((err) => logger.warn('lock node down at start', { url, message: err.message }));
    return client;
  }),
);

const NODE_TIMEOUT_MS = 80;
const DRIFT_FACTOR = 0.01;

const DEL_IF_MINE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function withTimeout(promise) {
  const ac = new AbortController();
  try {
    return await Promise.race([
      promise,
      delay(NODE_TIMEOUT_MS, undefined, { signal: ac.signal }).then(() => {
        throw new Error('lock node timed out');
      }),
    ]);
  } finally {
    ac.abort();
  }
}

const onEach = (fn) => Promise.allSettled(nodes.map((node) => withTimeout(fn(node))));

async function unlock(key, token) {
  await onEach((node) => node.eval(DEL_IF_MINE, { keys: [key], arguments: [token] }));
}

/**
 * @param {string} resource
 * @param {number} ttl  ms; the lock ends then, there is no renewal
 * @param {{ attempts?: number, pause?: number }} [options]
 * @returns {Promise<{ validMs: () => number, unlock: () => Promise<void> } | null>}
 */
export async function lock(resource, ttl, { attempts = 5, pause = 250 } = {}) {
  if (!Number.isInteger(ttl) || ttl <= 0) throw new TypeError('ttl');
  const key = `lock:${resource}`;

  for (let i = 0; i < attempts; i++) {
    const token = randomBytes(16).toString('hex');
    const start = performance.now();

    const results = await onEach((node) => node.set(key, token, { NX: true, PX: ttl }));
    const replies = results.filter((r) => r.status === 'fulfilled').map((r) => r.value);
    const granted = replies.filter((reply) => reply === 'OK').length;
    const needed = Math.floor(replies.length / 2) + 1;

    const end = start + ttl - (ttl * DRIFT_FACTOR + 2);
    if (granted >= needed && performance.now() < end) {
      return {
        validMs: () => Math.max(0, end - performance.now()),
        unlock: () => unlock(key, token),
      };
    }

    logger.debug('lock not granted', { resource, granted, needed, attempt: i + 1 });
    await unlock(key, token);
    await delay(pause / 2 + Math.random() * pause);
  }
  return null;
}
