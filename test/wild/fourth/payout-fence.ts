import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const LOCK_AND_NUMBER = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

// Reading counts as well: from here on nobody with a lower number may write.
const FENCED_READ = `
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return false end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
return redis.call('HGET', KEYS[1], 'cents') or '0'`;

// The balance only takes a write whose number is at least the highest one seen.
const FENCED_WRITE = `
local seen = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'cents', ARGV[2])
return 1`;

export class StaleWriter extends Error {
  constructor(merchant: string, fence: number) {
    super(`access to ${merchant} refused, number ${fence} is out of date`);
    this.name = 'StaleWriter';
  }
}

export interface PayoutLock {
  merchant: string;
  fence: number;
  release(): Promise<void>;
}

export class PayoutStore {
  private readonly redis: Redis;
  private readonly lockMs: number;

  constructor(redis: Redis, lockMs = 10_000) {
    this.redis = redis;
    this.lockMs = lockMs;
  }

  async lock(merchant: string): Promise<PayoutLock | undefined> {
    const token = randomUUID();
    const key = `payout:{${merchant}}:lock`;
    const fence = Number(
      await this.redis.eval(LOCK_AND_NUMBER, 2, key, `payout:{${merchant}}:fence`, token, this.lockMs),
    );
    if (fence === 0) return undefined;
    return {
      merchant,
      fence,
      release: async () => {
        await this.redis.eval(UNLOCK, 1, key, token);
      },
    };
  }

  async readCents(lock: PayoutLock): Promise<number> {
    const cents = await this.redis.eval(FENCED_READ, 1, `payout:{${lock.merchant}}:balance`, lock.fence);
    if (cents === null) throw new StaleWriter(lock.merchant, lock.fence);
    return Number(cents);
  }

  async writeCents(lock: PayoutLock, cents: number): Promise<void> {
    const key = `payout:{${lock.merchant}}:balance`;
    const taken = await this.redis.eval(FENCED_WRITE, 1, key, lock.fence, cents);
    if (taken !== 1) throw new StaleWriter(lock.merchant, lock.fence);
  }

  async payOut(merchant: string, cents: number): Promise<number> {
    const lock = await this.lock(merchant);
    if (!lock) throw new Error(`a payout of ${merchant} is already running`);
    try {
      const balance = await this.readCents(lock);
      if (balance < cents) throw new Error('insufficient balance');
      await this.writeCents(lock, balance - cents);
      return balance - cents;
    } finally {
      await lock.release();
    }
  }
}
