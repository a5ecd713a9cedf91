import { randomUUID } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';
import { createClient } from 'redis';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));
const ready = redis.connect();

const LOCK_TTL_MS = 30_000;
const RELEASE_LUA =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

export interface CouponDb {
  coupon(code: string, opts: { timeoutMs: number }): Promise<{ id: number; maxUses: number; percent: number } | null>;
  countRedemptions(couponId: number, opts: { timeoutMs: number }): Promise<number>;
  addRedemption(couponId: number, orderId: string, opts: { timeoutMs: number }): Promise<void>;
}

class LockedError extends Error {}

async function unlock(key: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE_LUA, { keys: [key], arguments: [token] });
  } catch (err) {
    console.warn('could not release %s, it expires on its own', key, err);
  }
}

async function withLock<T>(key: string, fn: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  let reply: unknown;
  try {
    reply = await redis.set(key, token, { NX: true, PX: LOCK_TTL_MS });
  } catch (err) {
    await unlock(key, token);
    throw err;
  }
  if (reply !== 'OK') throw new LockedError(key);

  try {
    return fn();
  } finally {
    await unlock(key, token);
  }
}

const opts = { timeoutMs: 3_000 };

export function redeemCoupon(db: CouponDb) {
  return async (req: Request, res: Response, next: NextFunction): Promise<void> => {
    const code = String(req.params.code).trim().toUpperCase();
    const orderId = String(req.body?.orderId ?? '');
    if (!orderId) {
      res.status(400).json({ error: 'orderId missing' });
      return;
    }

    try {
      await ready;
      const percent = await withLock(`lock:coupon:${code}`, async () => {
        const coupon = await db.coupon(code, opts);
        if (!coupon) return null;
        const used = await db.countRedemptions(coupon.id, opts);
        if (used >= coupon.maxUses) return 0;
        await db.addRedemption(coupon.id, orderId, opts);
        return coupon.percent;
      });

      if (percent === null) res.status(404).json({ error: 'unknown coupon' });
      else if (percent === 0) res.status(410).json({ error: 'coupon used up' });
      else res.json({ orderId, percent });
    } catch (err) {
      if (err instanceof LockedError) {
        res.status(409).set('Retry-After', '1').json({ error: 'coupon is being redeemed, try again' });
        return;
      }
      next(err);
    }
  };
}
