import { dirname, join } from 'node:path';
import type { HeldLock, MakeLock } from '../lock-under-test.js';
import { type NodeRedis, nodeRedisOf, require } from './connected.js';
import { type Library, RETRIES, RETRY_DELAY_MS, RETRY_JITTER_MS } from './library.js';

type RedlockClass = new (
  clients: readonly NodeRedis[],
  options: object,
) => { acquire(key: string, ttlMs: number): Promise<HeldLock | null> };

async function load(): Promise<MakeLock> {
  // Where the condition "development" is set, as by vitest, its exports name a file that is not in the package.
  const main = join(dirname(require.resolve('@redis-kit/lock/package.json')), 'dist/index.js');
  const { Redlock }: { Redlock: RedlockClass } = require(main);
  const clientOf = nodeRedisOf('redis5');
  const options = { maxRetryAttempts: RETRIES, retryDelayMs: RETRY_DELAY_MS, retryJitterMs: RETRY_JITTER_MS };
  return ({ addresses }) => {
    const clients = addresses.map(clientOf);
    for (const client of clients) client.connect().catch(() => {});
    const redlock = new Redlock(clients, options);
    return { acquire: (resource, ttlMs) => redlock.acquire(resource, ttlMs) };
  };
}

/** Redlock of redis-kit, on node-redis 5. */
export const REDIS_KIT: Library = {
  id: 'redis-kit',
  package: '@redis-kit/lock',
  version: '0.1.0-3',
  client: 'redis5@npm:redis@5.12.1',
  belief: 'until lock.expiresAt by Date.now(), or lock.release()',
  extendsItself: false,
  load,
};
