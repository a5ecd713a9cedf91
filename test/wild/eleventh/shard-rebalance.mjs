import { randomBytes } from 'node:crypto';
import { createClient } from 'redis';

const NODES = (process.env.LOCK_NODES ?? 'redis://localhost:6379,redis://localhost:6380,redis://localhost:6381')
  .split(',');

const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

export class LockManager {
  #clients;
  #majority;
  #ttl;
  #nodeTimeout;

  constructor(clients, { ttl = 20_000, nodeTimeout = 500 } = {}) {
    this.#clients = clients;
    this.#majority = Math.floor(clients.length / 2) + 1;
    this.#ttl = ttl;
    this.#nodeTimeout = nodeTimeout;
  }

  static async connect(urls = NODES, options) {
    const clients = urls.map((url) => createClient({ url, disableOfflineQueue: true }));
    const connected = clients.map((c, i) => {
      c.on('error', (err) => console.error(urls[i], err.message));
      return c.connect();
    });
    // a node that is down must not keep us from starting
    await Promise.race([Promise.allSettled(connected), new Promise((r) => setTimeout(r, 2_000))]);
    return new LockManager(clients, options);
  }

  #withTimeout(promise) {
    let timer;
    const timeout = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('node timeout')), this.#nodeTimeout);
    });
    return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
  }

  async acquire(resource) {
    const token = randomBytes(20).toString('hex');
    const start = performance.now();

    const results = await Promise.allSettled(
      this.#clients.map((c) => this.#withTimeout(c.set(resource, token, { NX: true, PX: this.#ttl }))),
    );
    const locked = results.filter((r) => r.status === 'fulfilled').length;

    const expiresAt = start + this.#ttl - this.#ttl * 0.01 - 2;
    if (locked >= this.#majority && performance.now() < expiresAt) {
      return { resource, token, expiresAt };
    }
    await this.release({ resource, token });
    return null;
  }

  async release({ resource, token }) {
    await Promise.allSettled(
      this.#clients.map((c) => this.#withTimeout(c.eval(UNLOCK, { keys: [resource], arguments: [token] }))),
    );
  }

  async close() {
    for (const c of this.#clients) c.destroy();
  }
}

/**
 * Moves partitions between shards until the load is even. A move is planned by reading the
 * load of all shards, therefore only one rebalancer may be active.
 * `cluster.move` is one metadata transaction with a time limit of two seconds.
 */
export async function rebalance(locks, cluster) {
  const lock = await locks.acquire('rebalance');
  if (!lock) return { moved: 0, skipped: true };

  let moved = 0;
  try {
    for (;;) {
      const move = await cluster.nextMove();
      if (!move) break;
      // the rest is for the next run
      if (performance.now() > lock.expiresAt - 3_000) break;
      await cluster.move(move);
      moved++;
    }
  } finally {
    await locks.release(lock);
  }
  return { moved, skipped: false };
}
