import type { MakeLock } from '../lock-under-test.js';
import { type Library, RETRIES, RETRY_DELAY_MS } from './library.js';

interface Mutex {
  readonly isAcquired: boolean;
  tryAcquire(): Promise<boolean>;
  release(): Promise<void>;
}

type RedlockMutexClass = new (clients: readonly unknown[], key: string, options: object) => Mutex;

async function load(): Promise<MakeLock> {
  const name = 'redis-semaphore';
  const { RedlockMutex } = (await import(name)) as { readonly RedlockMutex: RedlockMutexClass };
  return ({ nodes }) => ({
    async acquire(resource, ttlMs) {
      const mutex = new RedlockMutex(nodes, resource, {
        lockTimeout: ttlMs,
        acquireTimeout: ttlMs,
        acquireAttemptsLimit: RETRIES + 1,
        retryInterval: RETRY_DELAY_MS,
        // The default throws, which ends the process.
        onLockLost: () => undefined,
      });
      return (await mutex.tryAcquire()) ? mutex : null;
    },
  });
}

export const REDIS_SEMAPHORE: Library = {
  id: 'redis-semaphore',
  package: 'redis-semaphore',
  version: '5.8.0',
  belief: 'while mutex.isAcquired, which it keeps alive by a refresh every 0.8 TTL: until onLockLost, or release()',
  extendsItself: true,
  load,
};
