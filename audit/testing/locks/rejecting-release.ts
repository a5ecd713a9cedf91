import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** Each second release of a process rejects, though it has deleted its key. */
export class Gate {
  private readonly redis: Redis;
  private releases = 0;

  constructor(redis: Redis) {
    this.redis = redis;
  }

  async acquire(key: string, ttlMs: number): Promise<string | null> {
    const token = randomUUID();
    return (await this.redis.set(key, token, 'PX', ttlMs, 'NX')) === 'OK' ? token : null;
  }

  async release(key: string, token: string): Promise<void> {
    const deleted = await this.redis.eval(RELEASE, 1, key, token);
    this.releases += Number(deleted);
    if (this.releases % 2 === 0) throw new Error(`${key} was not released`);
  }
}
