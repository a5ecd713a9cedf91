import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

function within(promise, ms) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('node timed out')), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export class MultiNodeMutex {
  #nodes;
  #ttlMs;
  #waitMs;
  #nodeTimeoutMs;

  constructor(urls, { ttlMs = 20_000, waitMs = 8_000, nodeTimeoutMs = 200 } = {}) {
    this.#ttlMs = ttlMs;
    this.#waitMs = waitMs;
    this.#nodeTimeoutMs = nodeTimeoutMs;
    this.#nodes = urls.map((url) => {
      const node = createClient({ url, disableOfflineQueue: true });
      node.on('error', (err) => console.warn('mutex node', url, err.message));
      node.connect().catch(() => {});
      return node;
    });
  }

  #ask(call) {
    return Promise.allSettled(
      this.#nodes.map(async (node) => within(call(node), this.#nodeTimeoutMs)),
    );
  }

  #unlockAll(key, token) {
    return this.#ask((node) => node.eval(UNLOCK, { keys: [key], arguments: [token] }));
  }

  async acquire(name) {
    const key = `mutex:${name}`;
    const drift = Math.ceil(this.#ttlMs * 0.01) + 2;
    const giveUp = performance.now() + this.#waitMs;

    do {
      const token = randomUUID();
      const start = performance.now();
      const replies = await this.#ask((node) =>
        node.set(key, token, { NX: true, PX: this.#ttlMs }),
      );
      const answered = replies.filter((reply) => reply.status === 'fulfilled');
      const granted = answered.filter((reply) => reply.value === 'OK');
      const quorum = Math.floor(answered.length / 2) + 1;
      const validMs = Math.floor(this.#ttlMs - (performance.now() - start) - drift);

      if (granted.length >= quorum && validMs > this.#ttlMs / 2) {
        return {
          signal: AbortSignal.timeout(validMs),
          release: () => this.#unlockAll(key, token),
        };
      }

      await this.#unlockAll(key, token);
      await sleep(50 + Math.random() * 150);
    } while (performance.now() < giveUp);

    throw new Error(`could not lock ${name} within ${this.#waitMs} ms`);
  }

  async run(name, work) {
    const lock = await this.acquire(name);
    try {
      const result = await work(lock.signal);
      lock.signal.throwIfAborted();
      return result;
    } finally {
      await lock.release();
    }
  }
}
