'use strict';

const crypto = require('crypto');
const Redis = require('ioredis');

const UNLOCK_SCRIPT =
  'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

/**
 * Creates a mutex over several Redis masters.
 *
 *   const mutex = createClusterMutex(['redis://a', 'redis://b', 'redis://c']);
 *   const lock = await mutex.acquire('orders:export', 10000);
 *   if (lock) {
 *     try { ... } finally { await mutex.release(lock); }
 *   }
 */
function createClusterMutex(urls, opts = {}) {
  const driftFactor = opts.driftFactor || 0.01;
  const commandTimeout = opts.commandTimeout || 500;

  const nodes = urls.map((url) => {
    const node = new Redis(url, { commandTimeout, maxRetriesPerRequest: 1 });
    node.on('error', (err) => (opts.onError ? opts.onError(url, err) : undefined));
    return node;
  });

  // majority of the nodes
  const quorum = Math.floor(nodes.length / 2);

  async function setOn(node, key, token, ttl) {
    try {
      return (await node.set(key, token, 'PX', ttl, 'NX')) === 'OK';
    } catch (err) {
      return false;
    }
  }

  async function release(lock) {
    await Promise.all(
      nodes.map((node) => node.eval(UNLOCK_SCRIPT, 1, lock.key, lock.token).catch(() => 0)),
    );
  }

  async function acquire(key, ttl) {
    const token = crypto.randomUUID();
    const start = performance.now();

    const answers = await Promise.all(nodes.map((node) => setOn(node, key, token, ttl)));
    const count = answers.filter(Boolean).length;

    const validity = ttl - (performance.now() - start) - (ttl * driftFactor + 2);
    if (count >= quorum && validity > 0) {
      return { key, token, validity, expiresAt: performance.now() + validity };
    }

    await release({ key, token });
    return null;
  }

  async function close() {
    await Promise.all(nodes.map((node) => node.quit()));
  }

  return { acquire, release, close };
}

module.exports = { createClusterMutex };
