import type { MakeLock } from '../lock-under-test.js';
import { type Counted, extended, ioredisOf, leftOf, noting, unlessOver } from './connected.js';
import { LEFT_TO_THE_TTL, type Library, RETRIES, RETRY_DELAY_MS } from './library.js';

interface Lock {
  acquire(key: string): Promise<Lock>;
  extend(ttlMs: number): Promise<Lock>;
  release(): Promise<unknown>;
}

/** A lock, and until when: it says nothing of that. */
class Held implements Counted {
  private readonly lock: Lock;
  remaining: () => number;

  constructor(lock: Lock, ttlMs: number, since: number) {
    this.lock = lock;
    this.remaining = leftOf(ttlMs, since);
  }

  extend(ttlMs: number): Promise<Held | false> {
    return extended(this, ttlMs, async () => (await this.lock.extend(ttlMs)) === this.lock);
  }

  release(): Promise<unknown> {
    return this.lock.release();
  }
}

type CreateLock = (client: unknown, options: object) => Lock;

async function load(): Promise<MakeLock> {
  const name = '@microfleet/ioredis-lock';
  const { createLock } = (await import(name)) as { readonly createLock: CreateLock };
  return ({ addresses: [address] }) => {
    const connected = ioredisOf(address);
    return {
      async acquire(resource, ttlMs) {
        const { client, sentAt } = noting(connected);
        const lock = createLock(client, { timeout: ttlMs, retries: RETRIES, delay: RETRY_DELAY_MS });
        await lock.acquire(resource);
        return unlessOver(new Held(lock, ttlMs, sentAt()));
      },
    };
  };
}

/** The fork of ioredis-lock that is kept up. */
export const IOREDIS_LOCK: Library = {
  id: 'ioredis-lock',
  package: '@microfleet/ioredis-lock',
  version: '6.0.1',
  client: 'ioredis@5.11.1',
  belief:
    'it says nothing: for a TTL from when the SET that was granted, or its extension, was sent, or until release()',
  extendsItself: false,
  nodes: 1,
  notPromised: LEFT_TO_THE_TTL,
  load,
};
