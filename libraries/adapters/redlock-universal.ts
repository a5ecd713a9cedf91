import type { MakeLock } from '../lock-under-test.js';
import { byIoredis, type Connect } from './connected.js';
import { type Library, RETRIES, RETRY_DELAY_MS } from './library.js';

interface Handle {
  readonly acquiredAt: number;
  readonly ttl: number;
}

interface RedLock {
  acquire(): Promise<Handle>;
  release(handle: Handle): Promise<boolean>;
  extend(handle: Handle, ttlMs: number): Promise<boolean>;
  using(routine: (signal: AbortSignal) => Promise<void>): Promise<void>;
}

interface RedlockUniversal {
  createRedlock(config: object): RedLock;
  IoredisAdapter: new (client: unknown) => unknown;
}

/** Its handle says when it was acquired, and for how long; that an extension moves the end is all it says of that. */
interface Held {
  readonly handle: Handle;
  readonly lock: RedLock;
  expiresAt: number;
}

async function load(connect: Connect = byIoredis): Promise<MakeLock> {
  const name = 'redlock-universal';
  const { createRedlock, IoredisAdapter } = (await import(name)) as RedlockUniversal;
  return (bed) => {
    const adapters = connect(bed).map((client) => new IoredisAdapter(client));
    const lockOn = (key: string, ttl: number): RedLock =>
      createRedlock({ adapters, key, ttl, retryAttempts: RETRIES, retryDelay: RETRY_DELAY_MS });
    return {
      async acquire(resource, ttlMs): Promise<Held> {
        const lock = lockOn(resource, ttlMs);
        const handle = await lock.acquire();
        return { handle, lock, expiresAt: handle.acquiredAt + handle.ttl };
      },
      release(held) {
        const { lock, handle } = held as Held;
        return lock.release(handle);
      },
      async extend(held, ttlMs) {
        const it = held as Held;
        const startedAt = Date.now();
        if (!(await it.lock.extend(it.handle, ttlMs))) return false;
        it.expiresAt = startedAt + ttlMs;
        return true;
      },
      using: (resource, ttlMs, routine) => lockOn(resource, ttlMs).using(routine),
    };
  };
}

/** redlock-universal, which also extends locks by itself. */
export const REDLOCK_UNIVERSAL: Library = {
  id: 'redlock-universal',
  package: 'redlock-universal',
  version: '0.8.5',
  client: 'ioredis@5.11.1',
  belief:
    'until handle.acquiredAt + handle.ttl by Date.now(), or release(); an extension counts from its call; in using(), until the signal aborts',
  extendsItself: true,
  load,
};
