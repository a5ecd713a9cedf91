import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const SHARED = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1`;

const EXCLUSIVE = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const LEAVE_SHARED = `
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const LEAVE_EXCLUSIVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const TTL_MS = 12_000;

export class PricingRw {
  private readonly redis: Redis;

  constructor(redis: Redis) {
    this.redis = redis;
  }

  private keys(list: string): [string, string] {
    return [`pricing:{${list}}:w`, `pricing:{${list}}:r`];
  }

  private async wait(script: string, list: string): Promise<string> {
    const token = randomUUID();
    for (let i = 0; i < 40; i++) {
      const entered = await this.redis.eval(script, 2, ...this.keys(list), token, TTL_MS);
      if (entered === 1) return token;
      await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 50));
    }
    throw new Error(`price list ${list} is busy`);
  }

  async read<T>(list: string, fn: () => Promise<T>): Promise<T> {
    const token = await this.wait(SHARED, list);
    try {
      return await fn();
    } finally {
      await this.redis.eval(LEAVE_SHARED, 1, this.keys(list)[1], token);
    }
  }

  async write<T>(list: string, fn: () => Promise<T>): Promise<T> {
    const token = await this.wait(EXCLUSIVE, list);
    try {
      return await fn();
    } finally {
      await this.redis.eval(LEAVE_EXCLUSIVE, 1, this.keys(list)[0], token);
    }
  }
}

export function withMargin(costCents: number, marginPercent: number): number {
  return Math.ceil(costCents / (1 - marginPercent / 100));
}
