import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const TTL = 10_000;
const READ = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1`;
const WRITE = `
if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;
const READ_DONE = "return redis.call('HDEL', KEYS[2], ARGV[1])";
const WRITE_DONE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/** Readers may be there together; who writes is alone. */
export class PriceLocks {
  private readonly redis: Redis;

  constructor(redis: Redis) {
    this.redis = redis;
  }

  readLocked<T>(list: string, work: () => Promise<T>): Promise<T> {
    return this.locked(list, [READ, READ_DONE], work);
  }

  writeLocked<T>(list: string, work: () => Promise<T>): Promise<T> {
    return this.locked(list, [WRITE, WRITE_DONE], work);
  }

  private async locked<T>(list: string, [begin, end]: [string, string], work: () => Promise<T>): Promise<T> {
    const keys = [`{${list}}:writer`, `{${list}}:readers`];
    const token = randomUUID();
    if ((await this.redis.eval(begin, 2, ...keys, token, TTL)) !== 1) throw new Error(`${list} is locked`);
    try {
      return await work();
    } finally {
      await this.redis.eval(end, 2, ...keys, token);
    }
  }
}
