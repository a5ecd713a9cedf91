import { randomUUID } from 'node:crypto';
import { Redis } from 'iovalkey';

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

export class CouponBusy extends Error {
  readonly coupon: string;
  constructor(coupon: string) {
    super(`coupon ${coupon} is being redeemed`);
    this.coupon = coupon;
  }
}

export class CouponLocks {
  private readonly valkey: Redis;
  private readonly lifetime: number;

  constructor(valkey?: Redis, lifetime = 5_000) {
    this.valkey = valkey ?? new Redis(process.env.VALKEY_URL ?? 'redis://localhost:6379', { lazyConnect: true });
    this.lifetime = lifetime;
  }

  private async setIfAbsent(key: string, value: string): Promise<unknown> {
    return this.valkey.set(key, value, 'PX', this.lifetime, 'NX');
  }

  async lock(coupon: string): Promise<string> {
    const token = randomUUID();
    const taken = await this.setIfAbsent(`coupon:${coupon}`, token);
    if (taken === false) throw new CouponBusy(coupon);
    return token;
  }

  async unlock(coupon: string, token: string): Promise<boolean> {
    const removed = await this.valkey.eval(UNLOCK, 1, `coupon:${coupon}`, token);
    return removed === 1;
  }
}

export interface CouponBook {
  usesLeft(coupon: string): Promise<number>;
  use(coupon: string, order: string): Promise<void>;
}

export async function redeem(locks: CouponLocks, book: CouponBook, coupon: string, order: string): Promise<boolean> {
  const code = coupon.trim().toUpperCase();
  const token = await locks.lock(code);
  try {
    if ((await book.usesLeft(code)) < 1) return false;
    await book.use(code, order);
    return true;
  } finally {
    await locks.unlock(code, token);
  }
}
