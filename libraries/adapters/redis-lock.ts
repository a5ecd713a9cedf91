import type { MakeLock } from '../lock-under-test.js';
import { leftOf, type NodeRedis, nodeRedisOf, noting, require, unlessOver } from './connected.js';
import { LEFT_TO_THE_TTL, type Library, RETRY_DELAY_MS } from './library.js';

type RedisLock = (client: NodeRedis, retryDelay: number) => (name: string, timeout: number) => Promise<() => unknown>;

async function load(): Promise<MakeLock> {
  const redisLock: RedisLock = require('redis-lock');
  const clientOf = nodeRedisOf('redis4');
  return async ({ addresses: [address] }) => {
    const connected = clientOf(address);
    await connected.connect();
    return {
      async acquire(resource, ttlMs) {
        const { client, sentAt } = noting(connected);
        const release = await redisLock(client, RETRY_DELAY_MS)(resource, ttlMs);
        return unlessOver({ remaining: leftOf(ttlMs, sentAt()), release });
      },
    };
  };
}

/** redis-lock, on node-redis 4, the only one that it takes. It tries until it has the lock. */
export const REDIS_LOCK: Library = {
  id: 'redis-lock',
  package: 'redis-lock',
  version: '1.0.0',
  client: 'redis4@npm:redis@4.7.1',
  belief: 'it says nothing: for a TTL from when the SET that was granted was sent, or until release()',
  extendsItself: false,
  keyOf: (it) => `lock.${it}`,
  nodes: 1,
  notPromised: LEFT_TO_THE_TTL,
  load,
};
