import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Each method that says how it is to be gives the lock itself, and so does its acquisition. */
export class Mutex {
  private readonly redis: Redis;
  private name = 'default';
  private ttlMs = 5_000;
  private token: string | null = null;

  constructor(redis: Redis) {
    this.redis = redis;
  }

  on(name: string): this {
    this.name = `mutex:${name}`;
    return this;
  }

  lasting(ttlMs: number): this {
    this.ttlMs = ttlMs;
    return this;
  }

  async acquire(): Promise<this> {
    const token = randomUUID();
    if ((await this.redis.set(this.name, token, 'PX', this.ttlMs, 'NX')) !== 'OK')
      throw new Error(`${this.name} is locked`);
    this.token = token;
    return this;
  }

  async release(): Promise<void> {
    const { token } = this;
    this.token = null;
    if (token !== null) await this.redis.eval(RELEASE, 1, this.name, token);
  }
}
