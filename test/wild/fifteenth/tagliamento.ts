import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const scripts = {
  take: `
    if redis.call('exists', KEYS[1]) == 0 then
      redis.call('hset', KEYS[1], 'owner', ARGV[1])
      redis.call('pexpire', KEYS[1], ARGV[2])
      return -10
    end
    return redis.call('pttl', KEYS[1])`,
  give: `
    if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
    redis.call('del', KEYS[1])
    redis.call('publish', KEYS[2], 'free')
    return 1`,
  keep: `
    if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
    if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
    return 1`,
};

const TAKEN = -10;
const REQUEST_MS = 1_000;
const LONGEST_WAIT_MS = 400;

const usable = (ttlMs: number): number => Math.floor(ttlMs * 0.99) - 2;

function timed<T>(request: Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('Redis does not answer')), REQUEST_MS);
    request.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Wakes up when a lock is given back, or after some time: messages may be missed. */
class Bell {
  #wake: () => void = () => {};
  #listener: Redis | undefined;

  listen(node: Redis, channel: string): void {
    if (this.#listener !== undefined) return;
    try {
      this.#listener = node.duplicate();
      this.#listener.on('error', () => {});
      this.#listener.on('message', () => this.#wake());
      this.#listener.subscribe(channel).catch(() => {});
    } catch {
      // Without messages the time alone wakes up.
    }
  }

  wait(ms: number): Promise<void> {
    return new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  close(): void {
    try {
      this.#listener?.disconnect();
    } catch {
      // It is closed.
    }
  }
}

class HashLock {
  readonly #node: Redis;

  constructor(node: Redis) {
    this.#node = node;
  }

  async acquire(resource: string, ttlMs: number) {
    const key = `hashlock:{${resource}}`;
    const channel = `${key}:free`;
    const bell = new Bell();
    const stopAt = Date.now() + Math.max(5_000, 3 * ttlMs);
    try {
      do {
        const owner = randomUUID();
        const expiresAt = Date.now() + usable(ttlMs);
        try {
          const left = await timed(this.#node.eval(scripts.take, 1, key, owner, ttlMs));
          if (left === TAKEN && Date.now() < expiresAt) return this.#held(key, channel, owner, expiresAt);
          if (left === TAKEN) await this.#give(key, channel, owner);
          bell.listen(this.#node, channel);
          const wait = typeof left === 'number' && left > 0 ? left + 1 : LONGEST_WAIT_MS;
          await bell.wait(Math.min(wait, LONGEST_WAIT_MS) + Math.random() * 20);
        } catch {
          await this.#give(key, channel, owner);
          await bell.wait(100 + Math.random() * 100);
        }
      } while (Date.now() < stopAt);
      return null;
    } finally {
      bell.close();
    }
  }

  #held(key: string, channel: string, owner: string, until: number) {
    const node = this.#node;
    const give = () => this.#give(key, channel, owner);
    return {
      expiresAt: until,
      release() {
        this.expiresAt = 0;
        return give();
      },
      async extend(ttlMs: number) {
        if (Date.now() >= this.expiresAt) throw new Error('the lock is over');
        const next = Date.now() + usable(ttlMs);
        const kept = await timed(node.eval(scripts.keep, 1, key, owner, ttlMs));
        if (kept !== 1 || Date.now() >= this.expiresAt) {
          await this.release();
          throw new Error('the lock was lost');
        }
        this.expiresAt = Math.max(this.expiresAt, next);
      },
    };
  }

  #give(key: string, channel: string, owner: string): Promise<boolean> {
    return timed(this.#node.eval(scripts.give, 2, key, channel, owner)).then(
      (given) => given === 1,
      () => false,
    );
  }
}

export const make: MakeLock = ({ nodes }) => new HashLock(nodes[0]);
