import type { Redis } from 'ioredis';
import { Lease } from './extending.js';

class Prolonged extends Lease {
  protected override async prolong(redis: Redis, key: string, ttlMs: number): Promise<unknown> {
    return await redis.pexpire(key, ttlMs);
  }
}

export async function obtain(redis: Redis, key: string, ttlMs: number): Promise<Lease | null> {
  const lease = new Prolonged(redis, key);
  return (await lease.take(ttlMs)) ? lease : null;
}
