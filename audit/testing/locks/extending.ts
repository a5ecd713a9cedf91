import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const DELETE = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
const PROLONG =
  "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";

export class Lease {
  private readonly redis: Redis;
  private readonly key: string;
  private readonly token = randomUUID();
  endsAt = 0;

  constructor(redis: Redis, key: string) {
    this.redis = redis;
    this.key = key;
  }

  /** Throws where the key has gone, or the answer came too late to be of use. */
  async renew(ttlMs: number): Promise<void> {
    const start = Date.now();
    const isOurs = (await this.prolong(this.redis, this.key, ttlMs)) === 1;
    this.endsAt = isOurs ? start + ttlMs * 0.98 : 0;
    if (Date.now() >= this.endsAt) throw new Error(`${this.key} was lost`);
  }

  protected async prolong(redis: Redis, key: string, ttlMs: number): Promise<unknown> {
    return await redis.eval(PROLONG, 1, key, this.token, ttlMs);
  }

  async take(ttlMs: number): Promise<boolean> {
    const start = Date.now();
    if ((await this.redis.set(this.key, this.token, 'PX', ttlMs, 'NX')) !== 'OK') return false;
    this.endsAt = start + ttlMs * 0.98;
    return true;
  }

  async release(): Promise<void> {
    await this.redis.eval(DELETE, 1, this.key, this.token);
  }
}

export async function obtain(redis: Redis, key: string, ttlMs: number): Promise<Lease | null> {
  const lease = new Lease(redis, key);
  return (await lease.take(ttlMs)) ? lease : null;
}
