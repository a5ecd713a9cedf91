import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const FREE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

interface RedisService {
  getClient(): Redis;
}

/** As applications have it that are put together by a container: the client is in a service. */
export class LockingService {
  private readonly cache: RedisService;

  constructor(cache: RedisService) {
    this.cache = cache;
  }

  async acquireLock(resource: string, ttlMs = 30_000): Promise<string | null> {
    const token = randomUUID();
    const reply = await this.cache.getClient().set(`lock:${resource}`, token, 'PX', ttlMs, 'NX');
    return reply === 'OK' ? token : null;
  }

  async releaseLock(resource: string, token: string): Promise<boolean> {
    return (await this.cache.getClient().eval(FREE, 1, `lock:${resource}`, token)) === 1;
  }
}
