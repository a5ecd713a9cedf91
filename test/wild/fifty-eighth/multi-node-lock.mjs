import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

// two independent masters in each availability zone
const NODES = [
  'redis://lock-a1.internal:6379',
  'redis://lock-a2.internal:6379',
  'redis://lock-b1.internal:6379',
  'redis://lock-b2.internal:6379',
];

const UNLOCK = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

const CLOCK_DRIFT = 0.01;

function within(promise, ms) {
  let timer;
  const timeout = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no reply in ${ms}ms`)), ms);
  });
  return Promise.race([promise, timeout]).finally(() => clearTimeout(timer));
}

export class MultiNodeLock {
  constructor(urls = NODES, { ttl = 15000, nodeTimeout = 300, retries = 8 } = {}) {
    this.ttl = ttl;
    this.nodeTimeout = nodeTimeout;
    this.retries = retries;
    // the lock is ours once a majority of the nodes has granted it
    this.quorum = Math.ceil(urls.length / 2);
    this.clients = urls.map((url) => {
      const client = createClient({ url, disableOfflineQueue: true });
      client.on('error', () => {}); // a node that is down simply doesn't vote
      return client;
    });
  }

  async connect() {
    // don't wait for nodes that are down, they join when they come back
    const pending = this.clients.map((client) => client.connect());
    await Promise.allSettled(pending.map((p) => within(p, 2000)));
  }

  async acquire(resource) {
    for (let i = 0; i < this.retries; i++) {
      const token = randomBytes(20).toString('hex');
      const start = performance.now();

      const grants = await Promise.all(
        this.clients.map((client) =>
          within(client.set(resource, token, { NX: true, PX: this.ttl }), this.nodeTimeout).then(
            (reply) => reply === 'OK',
            () => false,
          ),
        ),
      );

      const granted = grants.filter(Boolean).length;
      const validUntil = start + this.ttl - Math.ceil(this.ttl * CLOCK_DRIFT) - 2;
      const enoughTime = validUntil - performance.now() > this.ttl / 2;
      if (granted >= this.quorum && enoughTime) return { resource, token, validUntil };

      await this.release({ resource, token });
      await sleep(100 + Math.random() * 300);
    }
    return null;
  }

  async release({ resource, token }) {
    await Promise.allSettled(
      this.clients.map((client) =>
        within(client.eval(UNLOCK, { keys: [resource], arguments: [token] }), this.nodeTimeout),
      ),
    );
  }

  async using(resource, fn) {
    const lock = await this.acquire(`lock:${resource}`);
    if (!lock) throw new Error(`Could not acquire lock for ${resource}`);
    const left = Math.floor((lock.validUntil - performance.now()) * 0.8);
    try {
      return await fn(AbortSignal.timeout(Math.max(0, left)));
    } finally {
      await this.release(lock);
    }
  }
}
