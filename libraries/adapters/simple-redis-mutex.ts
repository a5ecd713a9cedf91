import type { MakeLock } from '../lock-under-test.js';
import { leftOf, type NodeRedis, nodeRedisOf, noting, ownCopy, unlessOver } from './connected.js';
import { LEFT_TO_THE_TTL, type Library, RETRY_DELAY_MS } from './library.js';

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

/** A client whose copies tell nobody of errors. The library prints those of its second connection, of which there are many. */
function quietly(client: NodeRedis): NodeRedis {
  const duplicate = client.duplicate.bind(client);
  client.duplicate = (...argv) => {
    const copy = duplicate(...argv).on('error', () => {});
    const on = copy.on.bind(copy);
    copy.on = (event, listener) => (event === 'error' ? copy : on(event, listener));
    return copy;
  };
  return client;
}

async function load(): Promise<MakeLock> {
  const clientOf = nodeRedisOf('redis');
  return async ({ addresses: [address] }) => {
    const connected = quietly(clientOf(address));
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
  belief:
    'it says nothing: for a TTL from when the SET that was granted, or refreshTimeout(), was sent, or until release()',
  extendsItself: false,
  keyOf: (it) => `@simple-redis-mutex:lock-${it}`,
  nodes: 1,
  notPromised: LEFT_TO_THE_TTL,
  load,
};

/** The same, and the keys count that it leaves: see `docs/findings/simple-redis-mutex-failed-lock.md`. */
export const SIMPLE_REDIS_MUTEX_KEYS: Library = {
  ...SIMPLE_REDIS_MUTEX,
  id: 'simple-redis-mutex-keys',
  notPromised: [],
};
