import type { MakeLock } from '../lock-under-test.js';
import { ioredisOf } from './connected.js';
import { LEFT_TO_THE_TTL, type Library, RETRIES, RETRY_DELAY_MS, untilGiven } from './library.js';

interface Lock {
  acquire(options: { retry: { attempts: number; delay: number } }): Promise<boolean>;
  acquireImmediately(): Promise<boolean>;
  isExpired(): boolean;
  release(): Promise<void>;
  extend(ttlMs: number): Promise<void>;
}

interface Verrou {
  LockFactory: new (store: unknown) => { createLock(name: string, ttlMs: number): Lock };
}

const RETRY = { attempts: RETRIES + 1, delay: RETRY_DELAY_MS };

/** @param take - One of its two ways to a lock. */
async function load(take: (lock: Lock) => Promise<boolean>): Promise<MakeLock> {
  const [name, driver] = ['@verrou/core', '@verrou/core/drivers/redis'];
  const { LockFactory } = (await import(name)) as Verrou;
  const { RedisStore } = (await import(driver)) as { RedisStore: new (options: object) => unknown };
  return ({ addresses: [address] }) => {
    const locks = new LockFactory(new RedisStore({ connection: ioredisOf(address) }));
    return {
      async acquire(resource, ttlMs) {
        const lock = locks.createLock(resource, ttlMs);
        return (await take(lock)) ? lock : null;
      },
      async extend(held, ttlMs) {
        await (held as Lock).extend(ttlMs);
        return held;
      },
    };
  };
}

/** The lock of verrou on Redis, by ioredis. */
export const VERROU: Library = {
  id: 'verrou',
  package: '@verrou/core',
  version: '0.5.2',
  client: 'ioredis@5.11.1',
  belief: 'until lock.isExpired(), or lock.release()',
  extendsItself: false,
  nodes: 1,
  notPromised: LEFT_TO_THE_TTL,
  load: () => load((lock) => lock.acquire({ retry: RETRY })),
};

/** The same, by its call that does not wait: see `docs/findings/verrou-acquire-immediately.md`. */
export const VERROU_IMMEDIATELY: Library = {
  ...VERROU,
  id: 'verrou-immediately',
  load: () => load(async (lock) => (await untilGiven(async () => (await lock.acquireImmediately()) || null)) ?? false),
};
