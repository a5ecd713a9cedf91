import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';

// Coupons have a limited number of uses. The count is kept in Redis, the check
// whether a customer qualifies is made by the shop backend.

const LOCK_TTL = 30;
const SHOP_TIMEOUT_MS = 8_000;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export interface ShopApi {
  qualifies(coupon: string, customerId: string, signal: AbortSignal): Promise<boolean>;
}

export interface RedeemRequest {
  coupon: string;
  customerId: string;
}

export type RedeemResponse = { status: 200 | 403 | 409 | 410; body: { message: string; left?: number } };

export function redeemHandler(shop: ShopApi, redis: Redis = Redis.fromEnv()) {
  return async ({ coupon, customerId }: RedeemRequest): Promise<RedeemResponse> => {
    const lockKey = `coupon:${coupon}:lock`;
    const leftKey = `coupon:${coupon}:left`;
    const token = randomUUID();

    const locked = await redis.set(lockKey, token, { nx: true, px: LOCK_TTL });
    if (locked !== 'OK') {
      return { status: 409, body: { message: 'Somebody is redeeming this coupon, try again' } };
    }

    try {
      const left = (await redis.get<number>(leftKey)) ?? 0;
      if (left <= 0) return { status: 410, body: { message: 'Coupon is used up' } };

      const ok = await shop.qualifies(coupon, customerId, AbortSignal.timeout(SHOP_TIMEOUT_MS));
      if (!ok) return { status: 403, body: { message: 'Coupon is not for you' } };

      await redis.set(leftKey, left - 1);
      await redis.lpush(`coupon:${coupon}:uses`, customerId);
      return { status: 200, body: { message: 'Redeemed', left: left - 1 } };
    } finally {
      await redis.eval(UNLOCK, [lockKey], [token]).catch((err: unknown) => {
        console.error('coupon lock not released', err);
      });
    }
  };
}
