import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

// The layout is that of Redisson, whose locks our Java services take: a hash of the owner with the depth of its hold.

const lockScript = `
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[1], 1)
  if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 'locked'
end
return redis.call('pttl', KEYS[1])
`;

const unlockScript = `
local depth = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if depth == 0 then
  redis.call('del', KEYS[1])
  return 1
end
return 0
`;

const renewScript = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1
`;

const REPLY_LIMIT_MS = 1_200;

const delay = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

async function reply(promise: Promise<unknown>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  try {
    return await Promise.race([
      promise,
      new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error('no reply')), REPLY_LIMIT_MS);
      }),
    ]);
  } finally {
    clearTimeout(timer);
  }
}

const believable = (ttlMs: number) => Math.floor(ttlMs - ttlMs * 0.01) - 2;

class RLock {
  readonly name: string;
  readonly #redis: Redis;
  readonly #owner = `${randomUUID()}:1`;
  #expires = 0;

  constructor(redis: Redis, name: string) {
    this.#redis = redis;
    this.name = name;
  }

  get expiration(): number {
    return this.#expires;
  }

  /** Resolves with `null` if the lock was taken, or with the ms for which another owner has it at most. */
  async tryLock(ttlMs: number): Promise<number | null> {
    this.#expires = Date.now() + believable(ttlMs);
    const left = await reply(this.#redis.eval(lockScript, 1, this.name, this.#owner, ttlMs)).catch(() => undefined);
    if (left === 'locked' && Date.now() < this.#expires) return null;
    this.#expires = 0;
    if (typeof left === 'number') return left;
    await this.unlock();
    return 100;
  }

  async unlock(): Promise<boolean> {
    this.#expires = 0;
    const done = await reply(this.#redis.eval(unlockScript, 1, this.name, this.#owner)).catch(() => 0);
    return done === 1;
  }

  async extend(ttlMs: number): Promise<boolean> {
    if (Date.now() >= this.#expires) return false;
    const expires = Date.now() + believable(ttlMs);
    const renewed = await reply(this.#redis.eval(renewScript, 1, this.name, this.#owner, ttlMs)).catch(() => undefined);
    if (renewed === 0) this.#expires = 0;
    if (renewed !== 1 || Date.now() >= this.#expires) return false;
    this.#expires = Math.max(this.#expires, expires);
    return true;
  }
}

export const make: MakeLock = ({ nodes }) => ({
  async acquire(resource, ttlMs) {
    const giveUp = Date.now() + 4 * ttlMs;
    do {
      const lock = new RLock(nodes[0], `rlock:${resource}`);
      const left = await lock.tryLock(ttlMs);
      if (left === null) return lock;
      await delay(Math.min(Math.max(left, 20), 200) * (0.5 + Math.random() / 2));
    } while (Date.now() < giveUp);
    return null;
  },
});
