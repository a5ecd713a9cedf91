import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export interface CouponRepository {
  usesLeft(code: string, opts: { timeoutMs: number }): Promise<number>;
  recordUse(code: string, userId: string, opts: { timeoutMs: number }): Promise<void>;
}

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const LOCK_MS = 30_000;
const WAIT_MS = 8_000;

export class CouponRedeemService {
  constructor(
    private readonly redis: Redis,
    private readonly coupons: CouponRepository,
  ) {}

  async redeem(code: string, userId: string): Promise<boolean> {
    const key = `coupon:${code}:lock`;
    const token = await this.lock(key);
    try {
      const left = await this.coupons.usesLeft(code, { timeoutMs: 3_000 });
      if (left <= 0) return false;
      await this.coupons.recordUse(code, userId, { timeoutMs: 3_000 });
      return true;
    } finally {
      await this.redis.eval(RELEASE, 1, key, token);
    }
  }

  private async lock(key: string): Promise<string> {
    const token = randomUUID();
    const until = Date.now() + WAIT_MS;
    while (Date.now() < until) {
      const replies = await this.redis
        .multi()
        .setnx(key, token)
        .pexpire(key, LOCK_MS)
        .exec();
      if (replies?.[0]?.[1] === 1) return token;
      await sleep(100 + Math.random() * 100);
    }
    throw new Error('coupon is busy, try again');
  }
}
