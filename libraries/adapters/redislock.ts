import type { MakeLock } from '../lock-under-test.js';
import { type Counted, extended, leftOf, oldClientOf, ownCopy, unlessOver } from './connected.js';
import { LEFT_TO_THE_TTL, type Library, untilGiven } from './library.js';

interface Lock {
  acquire(key: string): PromiseLike<void>;
  extend(ttlMs: number): PromiseLike<void>;
  release(): PromiseLike<void>;
}

interface Redislock {
  createLock(client: unknown, options: object): Lock;
  readonly LockAcquisitionError: new () => Error;
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
    return extended(this, ttlMs, async () => {
      await this.lock.extend(ttlMs);
      return true;
    });
  }

  async release(): Promise<void> {
    await this.lock.release();
  }
}

async function load(): Promise<MakeLock> {
  const clientOf = oldClientOf();
  return ({ addresses: [address] }) => {
    const client = clientOf(address);
    // It keeps clients by what they count of their connections.
    const { createLock, LockAcquisitionError } = ownCopy('redislock', 'redis-evalsha') as Redislock;
    const attempt = async (key: string, timeout: number): Promise<Held | null> => {
      const [lock, startedAt] = [createLock(client, { timeout }), performance.now()];
      try {
        await lock.acquire(key);
      } catch (error) {
        // Errors of the connection are of this class as well.
        if (error instanceof LockAcquisitionError && /^Could not acquire/.test(error.message)) return null;
        throw error;
      }
      return unlessOver(new Held(lock, timeout, startedAt));
    };
    return { acquire: (resource, ttlMs) => untilGiven(() => attempt(resource, ttlMs)) };
  };
}

/** redislock, on node-redis 3. */
export const REDISLOCK: Library = {
  id: 'redislock',
  package: 'redislock',
  version: '1.3.0',
  client: 'redis3@npm:redis@3.1.2',
  belief: 'it says nothing: for a TTL from the call of acquire() or extend() that was granted, or until release()',
  extendsItself: false,
  nodes: 1,
  notPromised: LEFT_TO_THE_TTL,
  load,
};
