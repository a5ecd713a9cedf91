import { createClient } from 'redis';

type Request = { params: { code: string }; user: { id: string } };
type Response = { status(code: number): Response; json(body: unknown): Response };
type Next = (err?: unknown) => void;

export interface CouponRepo {
  find(code: string): Promise<{ code: string; usesLeft: number } | null>;
  redeem(code: string, userId: string): Promise<void>;
}

const redisClient = createClient({ url: process.env.REDIS_URL ?? 'redis://localhost:6379' });
redisClient.on('error', (err) => console.error('Redis error', err));

export const ready = redisClient.connect();

async function acquireLock(key: string, ttlMs: number): Promise<boolean> {
  const result = await redisClient.set(key, 'locked', { NX: true, PX: ttlMs });
  return result === 'OK';
}

async function releaseLock(key: string): Promise<void> {
  await redisClient.del(key);
}

/**
 * POST /coupons/:code/redeem
 *
 * Serialises redemptions of the same coupon, so that a coupon with one use left is not
 * redeemed by two customers.
 */
export function redeemCoupon(repo: CouponRepo) {
  return async (req: Request, res: Response, next: Next) => {
    const { code } = req.params;
    const lockKey = `lock:coupon:${code}`;

    try {
      await ready;
      if (!(await acquireLock(lockKey, 5000))) {
        return res.status(409).json({ error: 'Coupon is being redeemed, try again' });
      }

      try {
        const coupon = await repo.find(code);
        if (!coupon) return res.status(404).json({ error: 'No such coupon' });
        if (coupon.usesLeft < 1) return res.status(410).json({ error: 'Coupon is used up' });

        await repo.redeem(code, req.user.id);
        return res.status(200).json({ redeemed: code });
      } finally {
        await releaseLock(lockKey);
      }
    } catch (err) {
      return next(err);
    }
  };
}
