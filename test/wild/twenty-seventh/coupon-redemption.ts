import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE_SCRIPT =
  'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

export class AlreadyRunningError extends Error {}

interface ExclusiveOptions<A extends unknown[]> {
  key: (...args: A) => string;
  ttlMs?: number;
}

/**
 * Only one call per key at a time, over all instances.
 * The class has to expose its client as `redis`.
 */
export function Exclusive<A extends unknown[]>({ key, ttlMs = 10_000 }: ExclusiveOptions<A>) {
  return function (_target: object, property: string, descriptor: PropertyDescriptor): PropertyDescriptor {
    const original = descriptor.value as (...args: A) => Promise<unknown>;

    descriptor.value = async function (this: { redis: Redis }, ...args: A) {
      const lockKey = `excl:${property}:${key(...args)}`;
      const token = randomUUID();

      const ok = await this.redis.set(lockKey, token, 'PX', ttlMs, 'NX');
      if (ok !== 'OK') {
        throw new AlreadyRunningError(lockKey);
      }

      try {
        return original.apply(this, args);
      } finally {
        await this.redis.eval(RELEASE_SCRIPT, 1, lockKey, token);
      }
    };

    return descriptor;
  };
}

export interface Coupon {
  code: string;
  maxUses: number;
  uses: number;
  percent: number;
}

export interface CouponRepository {
  find(code: string): Promise<Coupon | undefined>;
  setUses(code: string, uses: number): Promise<void>;
  addRedemption(code: string, orderId: string): Promise<void>;
}

export class CouponService {
  constructor(
    readonly redis: Redis,
    private readonly coupons: CouponRepository,
  ) {}

  @Exclusive({ key: (code: string, _orderId: string) => code.toUpperCase() })
  async redeem(code: string, orderId: string): Promise<number> {
    const coupon = await this.coupons.find(code.toUpperCase());
    if (!coupon) throw new Error('unknown coupon');
    if (coupon.uses >= coupon.maxUses) throw new Error('coupon is used up');

    await this.coupons.setUses(coupon.code, coupon.uses + 1);
    await this.coupons.addRedemption(coupon.code, orderId);
    return coupon.percent;
  }
}
