import crypto from "node:crypto";
import type { Redis, Result, Callback } from "ioredis";

declare module "ioredis" {
  interface RedisCommander<Context> {
    unlockIfMine(key: string, token: string, callback?: Callback<number>): Result<number, Context>;
    extendIfMine(key: string, token: string, ttl: number, callback?: Callback<number>): Result<number, Context>;
  }
}

export class LockNotAcquiredError extends Error {}
export class LockLostError extends Error {}

interface Options {
  prefix?: string;
  retryCount?: number;
  retryDelay?: number;
  retryJitter?: number;
}

export class HeldLock {
  constructor(
    private readonly owner: DistributedLock,
    readonly resource: string,
    readonly token: string,
    public expiresAt: number,
  ) {}

  get valid() {
    return Date.now() < this.expiresAt;
  }

  extend(ttl: number) {
    return this.owner.extend(this, ttl);
  }

  release() {
    return this.owner.release(this);
  }
}

export class DistributedLock {
  private readonly opts: Required<Options>;

  constructor(private readonly redis: Redis, options: Options = {}) {
    this.opts = { prefix: "lk:", retryCount: 20, retryDelay: 100, retryJitter: 100, ...options };
    this.redis.defineCommand("unlockIfMine", {
      numberOfKeys: 1,
      lua: `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`,
    });
    this.redis.defineCommand("extendIfMine", {
      numberOfKeys: 1,
      lua: `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end`,
    });
  }

  async acquire(resource: string, ttl: number): Promise<HeldLock> {
    const key = this.opts.prefix + resource;

    for (let attempt = 0; attempt <= this.opts.retryCount; attempt++) {
      if (attempt > 0) {
        const wait = this.opts.retryDelay + Math.random() * this.opts.retryJitter;
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
      const token = crypto.randomUUID();
      const start = Date.now();
      try {
        const reply = await this.redis.set(key, token, "PX", ttl, "NX");
        if (reply !== "OK") continue;
      } catch (err) {
        await this.redis.unlockIfMine(key, token).catch(() => undefined);
        throw err;
      }
      const lock = new HeldLock(this, resource, token, start + ttl - this.drift(ttl));
      if (lock.valid) return lock;
      await this.redis.unlockIfMine(key, token).catch(() => undefined);
    }
    throw new LockNotAcquiredError(`"${resource}" is locked`);
  }

  async extend(lock: HeldLock, ttl: number): Promise<void> {
    if (!lock.valid) throw new LockLostError(`"${lock.resource}" has expired`);
    const start = Date.now();
    const n = await this.redis.extendIfMine(this.opts.prefix + lock.resource, lock.token, ttl);
    if (n !== 1) {
      lock.expiresAt = 0;
      throw new LockLostError(`"${lock.resource}" is not ours any more`);
    }
    lock.expiresAt = start + ttl - this.drift(ttl);
    if (!lock.valid) throw new LockLostError(`"${lock.resource}" was extended too late`);
  }

  async release(lock: HeldLock): Promise<boolean> {
    lock.expiresAt = 0;
    return (await this.redis.unlockIfMine(this.opts.prefix + lock.resource, lock.token)) === 1;
  }

  private drift(ttl: number) {
    return Math.round(ttl * 0.01) + 2;
  }
}

export default DistributedLock;
