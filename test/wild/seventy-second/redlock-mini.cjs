/**
 * Minimal Redlock (https://redis.io/docs/manual/patterns/distributed-locks/)
 * on top of node-redis. Usage:
 *
 *   const lock = await createRedlock(process.env.REDIS_NODES.split(','));
 *   const lease = await lock.acquire('invoice:42', 10000);
 *   try { ... } finally { await lease.release(); }
 */
const { createClient } = require('redis');
const { randomBytes } = require('node:crypto');

const DEL_IF_EQUAL = `
if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end`;

const CLOCK_DRIFT = 0.01;
const NODE_TIMEOUT = 150;

const delay = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const withTimeout = (promise, ms) => {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('node timed out')), ms);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
};

async function createRedlock(urls) {
  const nodes = urls.map((url) => {
    const node = createClient({ url, disableOfflineQueue: true });
    node.on('error', () => {});
    return node;
  });
  await Promise.allSettled(nodes.map((node) => withTimeout(node.connect(), 2000)));

  const quorum = Math.floor(nodes.length / 2);

  const lockNode = async (node, key, token, ttl) => {
    try {
      const reply = await withTimeout(node.set(key, token, { NX: true, PX: ttl }), NODE_TIMEOUT);
      return reply === 'OK';
    } catch {
      return false;
    }
  };

  const unlockAll = (key, token) =>
    Promise.allSettled(
      nodes.map(async (node) => node.eval(DEL_IF_EQUAL, { keys: [key], arguments: [token] })),
    );

  async function acquire(resource, ttl, { attempts = 10, retryDelay = 200 } = {}) {
    const key = `redlock:${resource}`;

    for (let i = 0; i < attempts; i++) {
      const token = randomBytes(20).toString('hex');
      const start = performance.now();
      const votes = await Promise.all(nodes.map((node) => lockNode(node, key, token, ttl)));
      const granted = votes.filter(Boolean).length;
      const validity = ttl - (performance.now() - start) - (ttl * CLOCK_DRIFT + 2);

      if (granted > 0 && granted >= quorum && validity > 0) {
        const validUntil = performance.now() + validity;
        return {
          resource,
          isValid: () => performance.now() < validUntil,
          release: () => unlockAll(key, token),
        };
      }

      await unlockAll(key, token);
      await delay(retryDelay * (0.5 + Math.random()));
    }

    throw new Error(`could not lock ${resource}`);
  }

  async function close() {
    await Promise.allSettled(nodes.map((node) => node.disconnect()));
  }

  return { acquire, close };
}

module.exports = { createRedlock };
