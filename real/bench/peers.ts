import { createRequire } from 'node:module';
import type { Redis } from 'ioredis';
import { type MakeSubject, type Retries, TTL_MS } from './subjects.js';
import type { PeerName } from './types.js';

/*
 * Other libraries, with default settings but for the retries. They are development dependencies of this package, so
 * that an installed copy may not have them: what is used of each is written down here instead of imported.
 */

const require = createRequire(import.meta.url);

/** How to make a peer, and what it is loaded by. */
interface Peer {
  readonly name: PeerName;
  readonly module: string;
  readonly make: MakeSubject;
}

/** The other locks that are measured where they are installed. */
export const PEERS: readonly Peer[] = [
  { name: 'redlock@4.2.0', module: 'redlock4', make: makeRedlock4 },
  { name: 'redlock@5.0.0-beta.2', module: 'redlock5', make: makeRedlock5 },
  { name: 'redlock-universal@0.8.5', module: 'redlock-universal', make: makeUniversal },
  { name: 'redis-semaphore@5.8.0', module: 'redis-semaphore', make: makeSemaphore },
  { name: '@sesamecare-oss/redlock@1.4.0', module: '@sesamecare-oss/redlock', make: makeSesamecare },
];

/** Whether a library can be loaded here. */
export function isInstalled(peer: Peer): boolean {
  try {
    require.resolve(peer.module);
    return true;
  } catch {
    return false;
  }
}

function redlockSettings({ count, delayMs, jitterMs }: Retries) {
  return { retryCount: count === Infinity ? -1 : count, retryDelay: delayMs, retryJitter: jitterMs };
}

interface Redlock4Lock {
  readonly expiration: number;
  extend(ttlMs: number): PromiseLike<Redlock4Lock>;
  unlock(): PromiseLike<void>;
}
interface Redlock4 {
  on(event: 'clientError', listener: () => void): void;
  lock(resource: string, ttlMs: number): PromiseLike<Redlock4Lock>;
}
type Redlock4Module = new (clients: readonly Redis[], settings: object) => Redlock4;

async function makeRedlock4(...[makeClients, retries, ttlMs = TTL_MS]: Parameters<MakeSubject>) {
  const Redlock: Redlock4Module = require('redlock4');
  const redlock = new Redlock(makeClients(), redlockSettings(retries));
  redlock.on('clientError', () => {});
  return {
    name: 'redlock@4.2.0' as const,
    worker: (resource: string) => ({
      async acquire() {
        let lock = await redlock.lock(resource, ttlMs);
        return {
          extend: async () => {
            lock = await lock.extend(ttlMs);
          },
          claimedMs: () => lock.expiration - Date.now(),
          release: async () => lock.unlock(),
        };
      },
    }),
    close: async () => {},
  };
}

interface Redlock5Lock {
  readonly expiration: number;
  extend(ttlMs: number): Promise<Redlock5Lock>;
  release(): Promise<unknown>;
}
interface Redlock5 {
  on(event: 'error', listener: () => void): void;
  acquire(resources: readonly string[], ttlMs: number): Promise<Redlock5Lock>;
}
type Redlock5Class = new (clients: readonly Redis[], settings: object) => Redlock5;

function makeRedlock5(...args: Parameters<MakeSubject>) {
  const { default: Redlock }: { default: Redlock5Class } = require('redlock5');
  return likeRedlock5('redlock@5.0.0-beta.2', Redlock, ...args);
}

/** A fork of redlock 5. */
function makeSesamecare(...args: Parameters<MakeSubject>) {
  const { Redlock }: { Redlock: Redlock5Class } = require('@sesamecare-oss/redlock');
  return likeRedlock5('@sesamecare-oss/redlock@1.4.0', Redlock, ...args);
}

async function likeRedlock5(
  name: PeerName,
  Redlock: Redlock5Class,
  ...[makeClients, retries, ttlMs = TTL_MS]: Parameters<MakeSubject>
) {
  const redlock = new Redlock(makeClients(), redlockSettings(retries));
  redlock.on('error', () => {});
  return {
    name,
    worker: (resource: string) => ({
      async acquire() {
        let lock = await redlock.acquire([resource], ttlMs);
        return {
          extend: async () => {
            lock = await lock.extend(ttlMs);
          },
          claimedMs: () => lock.expiration - Date.now(),
          release: () => lock.release(),
        };
      },
    }),
    close: async () => {},
  };
}

interface UniversalHandle {
  /** ms since the epoch. */
  readonly acquiredAt: number;
  readonly ttl: number;
}
interface UniversalLock {
  acquire(): Promise<UniversalHandle>;
  extend(handle: UniversalHandle, ttlMs: number): Promise<boolean>;
  release(handle: UniversalHandle): Promise<boolean>;
}
interface UniversalModule {
  createRedlock(config: object): UniversalLock;
  readonly IoredisAdapter: new (client: Redis) => object;
}

async function makeUniversal(...[makeClients, retries, ttlMs = TTL_MS]: Parameters<MakeSubject>) {
  const { createRedlock, IoredisAdapter }: UniversalModule = require('redlock-universal');
  const adapters = makeClients().map((client) => new IoredisAdapter(client));
  // Takes no jitter, and no word for "for ever".
  const retryAttempts = Math.min(retries.count, 1_000_000);
  return {
    name: 'redlock-universal@0.8.5' as const,
    worker: (resource: string) => {
      const lock = createRedlock({ adapters, key: resource, ttl: ttlMs, retryAttempts, retryDelay: retries.delayMs });
      return {
        async acquire() {
          const handle = await lock.acquire();
          return {
            extend: async () => {
              if (!(await lock.extend(handle, ttlMs))) throw new Error('not extended');
            },
            claimedMs: () => handle.acquiredAt + handle.ttl - Date.now(),
            release: () => lock.release(handle),
          };
        },
      };
    },
    close: async () => {},
  };
}

interface SemaphoreMutex {
  acquire(): Promise<void>;
  release(): Promise<void>;
  /** What its own timer calls to extend; it has no public name. */
  _refresh(): Promise<boolean>;
}
interface SemaphoreModule {
  readonly RedlockMutex: new (clients: readonly Redis[], key: string, options: object) => SemaphoreMutex;
}

async function makeSemaphore(...[makeClients, retries, ttlMs = TTL_MS]: Parameters<MakeSubject>) {
  const { RedlockMutex }: SemaphoreModule = require('redis-semaphore');
  const clients = makeClients();
  // Takes no jitter.
  const options = {
    lockTimeout: ttlMs,
    acquireAttemptsLimit: retries.count + 1,
    acquireTimeout: Infinity,
    retryInterval: retries.delayMs,
    // By default it throws where nobody can catch it.
    onLockLost: () => {},
    // Its own timer would extend a short lock before anybody else does.
    ...(ttlMs < TTL_MS ? { refreshInterval: 0 } : {}),
  };
  return {
    name: 'redis-semaphore@5.8.0' as const,
    keyPrefix: 'mutex:',
    worker: (resource: string) => {
      const mutex = new RedlockMutex(clients, resource, options);
      return {
        async acquire() {
          await mutex.acquire();
          return {
            extend: async () => {
              if (!(await mutex._refresh())) throw new Error('not extended');
            },
            claimedMs: () => null,
            release: () => mutex.release(),
          };
        },
      };
    },
    close: async () => {},
  };
}
