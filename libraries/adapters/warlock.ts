import type { HeldLock, MakeLock } from '../lock-under-test.js';
import { type Counted, extended, leftOf, type OldClient, oldClientOf, ownCopy, unlessOver } from './connected.js';
import { LEFT_TO_THE_TTL, type Library, untilGiven } from './library.js';

type Callback<T> = (error: Error | null, value: T, id: string) => void;

interface Warlock {
  lock(key: string, ttlMs: number, done: Callback<(() => Promise<void>) | false>): void;
  touch(key: string, id: string, ttlMs: number): Promise<'OK' | 0>;
}

async function load(): Promise<MakeLock> {
  const clientOf = oldClientOf();
  return ({ addresses: [address] }) => {
    // Its tokens count on from the last one that their process has made.
    const warlockOf = ownCopy('node-redis-warlock', 'uuid') as (client: OldClient) => Warlock;
    const warlock = warlockOf(clientOf(address));
    return { acquire: (resource, ttlMs) => untilGiven(() => attempt(warlock, resource, ttlMs)) };
  };
}

function attempt(warlock: Warlock, key: string, ttlMs: number): Promise<HeldLock | null> {
  const sentAt = performance.now();
  return new Promise((resolve, reject) => {
    warlock.lock(key, ttlMs, (error, unlock, id) => {
      if (error !== null) reject(error);
      else if (unlock === false) resolve(null);
      else resolve(unlessOver(heldBy(warlock, key, id, { release: () => unlock(), remaining: leftOf(ttlMs, sentAt) })));
    });
  });
}

function heldBy(warlock: Warlock, key: string, id: string, held: Counted & HeldLock): HeldLock {
  const extend = (ttlMs: number): Promise<HeldLock | false> =>
    extended(it, ttlMs, async () => (await warlock.touch(key, id, ttlMs)) === 'OK');
  const it = { ...held, extend };
  return it;
}

/** node-redis-warlock, on node-redis 3. */
export const WARLOCK: Library = {
  id: 'warlock',
  package: 'node-redis-warlock',
  version: '1.0.2',
  client: 'redis3@npm:redis@3.1.2',
  belief: 'it says nothing: for a TTL from the call of lock() or touch() that was granted, or until unlock()',
  extendsItself: false,
  keyOf: (it) => `${it}:lock`,
  nodes: 1,
  notPromised: LEFT_TO_THE_TTL,
  load,
};
