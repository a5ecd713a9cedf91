import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const OPEN = `
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return false end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return redis.call('HGET', KEYS[1], 'kwh') or '0'`;

const WRITE = `
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'kwh', ARGV[2])
return 1`;

export interface MeterLock {
  meter: string;
  fence: number;
  token: string;
}

export class MeterBilling {
  private readonly redis: Redis;
  private readonly lockMs: number;

  constructor(redis: Redis, lockMs = 5_000) {
    this.redis = redis;
    this.lockMs = lockMs;
  }

  async lock(meter: string, waitMs = 10_000): Promise<MeterLock> {
    const token = randomUUID();
    const fence = await this.redis.incr(`meter:{${meter}}:fence`);
    const giveUp = performance.now() + waitMs;
    while ((await this.redis.set(`meter:{${meter}}:lock`, token, 'PX', this.lockMs, 'NX')) !== 'OK') {
      if (performance.now() > giveUp) throw new Error(`meter ${meter} is locked`);
      await sleep(50 + Math.random() * 100);
    }
    return { meter, fence, token };
  }

  async unlock(lock: MeterLock): Promise<void> {
    await this.redis.eval(UNLOCK, 1, `meter:{${lock.meter}}:lock`, lock.token);
  }

  private async open(lock: MeterLock): Promise<number> {
    const kwh = await this.redis.eval(OPEN, 1, `meter:{${lock.meter}}:total`, lock.fence);
    if (kwh === null) throw new Error(`meter ${lock.meter}: number ${lock.fence} is out of date`);
    return Number(kwh);
  }

  private async write(lock: MeterLock, kwh: number): Promise<void> {
    const ok = await this.redis.eval(WRITE, 1, `meter:{${lock.meter}}:total`, lock.fence, kwh);
    if (ok !== 1) throw new Error(`meter ${lock.meter}: number ${lock.fence} is out of date`);
  }

  async addReading(meter: string, convert: () => Promise<number>): Promise<number> {
    const lock = await this.lock(meter);
    try {
      const before = await this.open(lock);
      const total = before + (await convert());
      await this.write(lock, total);
      return total;
    } finally {
      await this.unlock(lock);
    }
  }
}

export function kwhFromPulses(pulses: number, perKwh = 1_000): number {
  return pulses / perKwh;
}
