import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { createClient } from 'redis';

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const CLOCK_DRIFT = 0.01;

/** Connects to every lock node; a node that is down is retried in the background. */
export async function connectNodes(urls) {
  return Promise.all(
    urls.map(async (url) => {
      const client = createClient({ url, disableOfflineQueue: true, socket: { connectTimeout: 500 } });
      client.on('error', (err) => console.warn(`[${url}]`, err.message));
      client.connect().catch(() => {});
      return client;
    }),
  );
}

function within(ms, promise) {
  const signal = AbortSignal.timeout(ms);
  return Promise.race([
    promise,
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new Error(`timeout after ${ms} ms`)), { once: true });
    }),
  ]);
}

/**
 * Sends one command to all nodes at once and returns the answers.
 */
async function broadcast(nodes, ms, send) {
  const settled = await Promise.allSettled(nodes.map((node) => within(ms, send(node))));
  return settled.filter((s) => s.status === 'fulfilled').map((s) => s.value);
}

/**
 * Redlock: the lock is ours if a majority of the nodes granted it.
 *
 * @param nodes  clients of independent Redis servers (odd number)
 * @param {{ ttl?: number, attempts?: number, nodeTimeout?: number }} [options]
 */
export function createLocker(nodes, { ttl = 15_000, attempts = 20, nodeTimeout = 100 } = {}) {
  async function unlock(key, token) {
    await broadcast(nodes, nodeTimeout, (node) => node.eval(UNLOCK, { keys: [key], arguments: [token] }));
  }

  async function lock(key) {
    for (let i = 0; i < attempts; i++) {
      const token = randomBytes(16).toString('hex');
      const startedAt = Date.now();

      const answers = await broadcast(nodes, nodeTimeout, (node) =>
        node.set(key, token, { NX: true, PX: ttl }),
      );
      const granted = answers.filter((a) => a === 'OK').length;
      const majority = Math.floor(answers.length / 2) + 1;

      const validUntil = startedAt + ttl - ttl * CLOCK_DRIFT - 2;
      if (granted >= majority && Date.now() < validUntil) {
        return { key, token, validUntil };
      }

      await unlock(key, token);
      await wait(50 + Math.random() * 150);
    }
    throw new Error(`lock ${key} not granted`);
  }

  async function withLock(key, fn) {
    const held = await lock(key);
    // Ends the work one second before the lock can run out.
    const signal = AbortSignal.timeout(Math.max(0, Math.floor(held.validUntil - Date.now() - 1_000)));
    try {
      return await fn(signal);
    } finally {
      await unlock(held.key, held.token);
    }
  }

  return { lock, unlock, withLock };
}

// usage
//
//   const nodes = await connectNodes(process.env.LOCK_NODES.split(','));
//   const locker = createLocker(nodes);
//   await locker.withLock('sku:4711', async (signal) => {
//     await fetch(`${WAREHOUSE}/reorder/4711`, { method: 'POST', signal });
//   });
