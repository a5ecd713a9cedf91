import type { MakeLock } from '../lock-under-test.js';
import { leftOf, type NodeRedis, nodeRedisOf, noting, ownCopy, unlessOver } from './connected.js';
import { type Library, RETRY_DELAY_MS } from './library.js';

type Release = (() => Promise<void>) & { refreshTimeout(): Promise<void> };

interface SimpleRedisMutex {
  lock(client: NodeRedis, name: string, options: object): Promise<Release>;
}

/** A lock whose TTL is told once: an extension gives it that again. */
class Held {
  readonly release: Release;
  readonly remaining: () => number;
  private readonly ttlMs: number;

  constructor(release: Release, ttlMs: number, since: number) {
    this.release = release;
    this.ttlMs = ttlMs;
    this.remaining = leftOf(ttlMs, since);
  }

  async extend(): Promise<Held> {
    const startedAt = performance.now();
    await this.release.refreshTimeout();
    return new Held(this.release, this.ttlMs, startedAt);
  }
}

async function load(): Promise<MakeLock> {
  const clientOf = nodeRedisOf('redis');
  return async ({ addresses: [address] }) => {
    const connected = clientOf(address);
    await connected.connect();
    const { lock } = ownCopy('simple-redis-mutex') as SimpleRedisMutex;
    return {
      async acquire(resource, ttlMs) {
        const { client, sentAt } = noting(connected);
        const options = { timeout: ttlMs, pollingInterval: RETRY_DELAY_MS, failAfter: ttlMs };
        const release = await lock(client, resource, options);
        return unlessOver(new Held(release, ttlMs, sentAt()));
      },
    };
  };
}

/** simple-redis-mutex, on node-redis 6. */
export const SIMPLE_REDIS_MUTEX: Library = {
  id: 'simple-redis-mutex',
  package: 'simple-redis-mutex',
  version: '3.0.0',
  client: 'redis@6.3.1',
  belief: 'it says nothing: for a TTL from when its last SET, or refreshTimeout(), was sent, or until release()',
  extendsItself: false,
  nodes: 1,
  load,
};
