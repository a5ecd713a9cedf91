import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const NODE_TIMEOUT_MS = 80;

function within(promise, ms) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(reject, ms, new Error('node timed out'));
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export function regionNodes(urls = process.env.REGION_REDIS ?? '') {
  return urls
    .split(/[\s,]+/)
    .filter(Boolean)
    .map((url) => new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 1, commandTimeout: 500 }));
}

/** Lock over independent Redis nodes, one per availability zone. */
export class RegionLock {
  constructor(nodes) {
    this.nodes = nodes;
    this.needed = Math.floor(nodes.length / 2);
  }

  async #unlock(key, token) {
    await Promise.allSettled(this.nodes.map((node) => within(node.eval(UNLOCK, 1, key, token), NODE_TIMEOUT_MS * 3)));
  }

  async tryLock(name, ttlMs) {
    const key = `region:${name}`;
    const token = randomBytes(18).toString('base64');
    const begun = performance.now();
    const answers = await Promise.allSettled(
      this.nodes.map((node) => within(node.set(key, token, 'PX', ttlMs, 'NX'), NODE_TIMEOUT_MS)),
    );
    const granted = answers.filter((a) => a.status === 'fulfilled' && a.value === 'OK').length;
    const until = begun + ttlMs - (ttlMs * 0.02 + 2);

    if (granted < this.needed || performance.now() >= until) {
      await this.#unlock(key, token);
      return null;
    }
    return {
      name,
      msLeft: () => Math.max(0, until - performance.now()),
      unlock: () => this.#unlock(key, token),
    };
  }

  async lock(name, ttlMs, { retries = 10, delayMs = 150 } = {}) {
    for (let i = 0; i <= retries; i++) {
      const lock = await this.tryLock(name, ttlMs);
      if (lock) return lock;
      await new Promise((r) => setTimeout(r, delayMs / 2 + Math.random() * delayMs));
    }
    throw new Error(`region lock ${name}: gave up`);
  }
}

export async function failover(locks, region, steps) {
  const lock = await locks.lock(`failover:${region}`, 20_000);
  try {
    for (const step of steps) {
      if (lock.msLeft() < 1_000) throw new Error(`failover of ${region} out of time`);
      await step(region);
    }
  } finally {
    await lock.unlock();
  }
}
