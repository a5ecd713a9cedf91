import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

export class QuorumError extends Error {
  constructor(resource, granted, quorum) {
    super(`${resource}: ${granted} of the ${quorum} nodes needed`);
    this.name = 'QuorumError';
    this.resource = resource;
  }
}

/** @param {string} list comma separated host:port, one per independent Redis master */
export function connectNodes(list) {
  return list.split(',').map((address) => {
    const [host, port] = address.trim().split(':');
    const node = new Redis({
      host,
      port: Number(port ?? 6379),
      maxRetriesPerRequest: 1,
      commandTimeout: 250,
      enableOfflineQueue: false,
    });
    node.on('error', (err) => console.warn(`[quorum-lock] ${address}: ${err.message}`));
    return node;
  });
}

/**
 * Lock over several independent Redis masters (Redlock algorithm). It is held if a
 * majority of the nodes granted it before its validity ran out.
 */
export class QuorumLock {
  #nodes;
  #quorum;
  #options;

  /**
   * @param {Redis[]} nodes
   * @param {{ ttl?: number, attempts?: number, retryDelay?: number, driftFactor?: number }} [options]
   */
  constructor(nodes, options = {}) {
    this.#nodes = nodes;
    this.#quorum = Math.floor(nodes.length / 2) + 1;
    this.#options = { ttl: 20_000, attempts: 8, retryDelay: 250, driftFactor: 0.01, ...options };
  }

  /** Runs `work` under the lock; the signal it gets fires before the lock becomes invalid. */
  async run(resource, work) {
    const lock = await this.acquire(resource);
    try {
      const left = Math.floor(lock.validUntil - performance.now());
      return await work(AbortSignal.timeout(Math.max(0, left)));
    } finally {
      await this.release(lock);
    }
  }

  async acquire(resource) {
    const { ttl, attempts, retryDelay, driftFactor } = this.#options;
    const key = `qlock:${resource}`;
    let granted = 0;

    for (let attempt = 0; attempt < attempts; attempt++) {
      const token = randomBytes(20).toString('hex');
      const startedAt = performance.now();

      const replies = await Promise.allSettled(
        this.#nodes.map((node) => node.set(key, token, 'PX', ttl, 'NX')),
      );
      granted = replies.filter((reply) => reply.status === 'fulfilled').length;

      // clock drift between us and the nodes, plus 2 ms for the precision of Redis expiry
      const validUntil = startedAt + ttl - ttl * driftFactor - 2;
      if (granted >= this.#quorum && performance.now() < validUntil) {
        return { key, token, validUntil };
      }

      await this.release({ key, token });
      await sleep(retryDelay + Math.random() * retryDelay);
    }
    throw new QuorumError(resource, granted, this.#quorum);
  }

  async release({ key, token }) {
    await Promise.allSettled(this.#nodes.map((node) => node.eval(UNLOCK, 1, key, token)));
  }
}
