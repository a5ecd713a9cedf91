import type { MakeLock } from '../lock-under-test.js';
import { byIoredis, type Connect } from './connected.js';
import { type Library, RETRIES, RETRY_DELAY_MS } from './library.js';

interface Mutex {
  readonly isAcquired: boolean;
  tryAcquire(): Promise<boolean>;
  release(): Promise<void>;
}

type RedlockMutexClass = new (clients: readonly unknown[], key: string, options: object) => Mutex;

async function load(name: string, connect: Connect = byIoredis): Promise<MakeLock> {
  const { RedlockMutex } = (await import(name)) as { readonly RedlockMutex: RedlockMutexClass };
  return (bed) => {
    const clients = connect(bed);
    return {
      async acquire(resource, ttlMs) {
        const mutex = new RedlockMutex(clients, resource, {
          lockTimeout: ttlMs,
          acquireTimeout: ttlMs,
          acquireAttemptsLimit: RETRIES + 1,
          retryInterval: RETRY_DELAY_MS,
          // The default throws, which ends the process.
          onLockLost: () => undefined,
        });
        return (await mutex.tryAcquire()) ? mutex : null;
      },
    };
  };
}

/** @param name - What the version is called in `package.json`. */
function versionOf(version: string, id: string, name: string): Library {
  return {
    id,
    package: 'redis-semaphore',
    version,
    client: 'ioredis@5.11.1',
    belief: 'while mutex.isAcquired, which it keeps alive by a refresh every 0.8 TTL: until onLockLost, or release()',
    extendsItself: true,
    keyOf: (it) => `mutex:${it}`,
    load: (connect) => load(name, connect),
  };
}

/** The mutex of redis-semaphore on several nodes, `RedlockMutex`. */
export const REDIS_SEMAPHORE: Library = versionOf('5.8.0', 'redis-semaphore', 'redis-semaphore');

/** Before and after a fix: see `docs/findings/redis-semaphore-refresh-reacquires.md`. */
export const REDIS_SEMAPHORE_5_3_0: Library = versionOf('5.3.0', 'redis-semaphore-5.3.0', 'redis-semaphore530');

/** See {@link REDIS_SEMAPHORE_5_3_0}. */
export const REDIS_SEMAPHORE_5_3_1: Library = versionOf('5.3.1', 'redis-semaphore-5.3.1', 'redis-semaphore531');
