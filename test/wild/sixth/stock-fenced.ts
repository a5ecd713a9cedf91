import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

/*
 * Stock levels with a fenced lock. The lock only keeps workers from getting into each other's
 * way; what keeps the data right is the fence, which the write itself compares.
 */

const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

// A read shows the fence too: from then on no older holder gets a write through.
const READ = `
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then
  return false
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return redis.call('HGET', KEYS[1], 'quantity') or '0'
`;

const WRITE = `
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'quantity', ARGV[2])
return 1
`;

export class StaleFenceError extends Error {}

export interface FencedLock {
  sku: string;
  token: string;
  fence: number;
}

export class StockStore {
  private redis: Redis;

  constructor(url: string = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379') {
    this.redis = new Redis(url);
  }

  async lock(sku: string, ttlMs = 5_000): Promise<FencedLock | null> {
    const token = randomUUID();
    const fence = (await this.redis.eval(
      ACQUIRE,
      2,
      `{stock:${sku}}:lock`,
      `{stock:${sku}}:fence`, // never expires
      token,
      ttlMs,
    )) as number;
    return fence > 0 ? { sku, token, fence } : null;
  }

  async unlock(lock: FencedLock): Promise<void> {
    await this.redis.eval(RELEASE, 1, `{stock:${lock.sku}}:lock`, lock.token);
  }

  async read(lock: FencedLock): Promise<number> {
    const quantity = await this.redis.eval(READ, 1, `{stock:${lock.sku}}:level`, lock.fence);
    if (quantity === null) throw new StaleFenceError(`fence ${lock.fence} of ${lock.sku} is out of date`);
    return Number(quantity);
  }

  async write(lock: FencedLock, quantity: number): Promise<void> {
    const ok = await this.redis.eval(WRITE, 1, `{stock:${lock.sku}}:level`, lock.fence, quantity);
    if (ok !== 1) throw new StaleFenceError(`fence ${lock.fence} of ${lock.sku} is out of date`);
  }

  close(): Promise<unknown> {
    return this.redis.quit();
  }
}
