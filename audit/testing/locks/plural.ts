import type { Redis } from 'ioredis';

class NamedLock {
  private readonly redis: Redis;
  private readonly key: string;

  constructor(redis: Redis, key: string) {
    this.redis = redis;
    this.key = key;
  }

  async acquire(): Promise<boolean> {
    return (await this.redis.set(this.key, '1', 'PX', 7_500, 'NX')) === 'OK';
  }

  async release(): Promise<void> {
    await this.redis.del(this.key);
  }
}

interface Locks {
  of(name: string): NamedLock;
}

/** One lock for each name, made when it is asked for first. */
export function locks(redis: Redis): Locks {
  const known = new Map<string, NamedLock>();
  return {
    of(name) {
      const lock = known.get(name) ?? new NamedLock(redis, `lock:${name}`);
      known.set(name, lock);
      return lock;
    },
  };
}
