import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const LOCK_TTL = 10_000;
const MAX_TRIES = 30;

/** Makes sure that a coupon is redeemed by one request at a time. */
export async function withCouponLock<T>(code: string, fn: () => Promise<T>): Promise<T> {
  const key = `lock:coupon:${code.toUpperCase()}`;

  let locked = false;
  for (let i = 0; i < MAX_TRIES && !locked; i++) {
    const res = await redis.set(key, '1', 'PX', LOCK_TTL, 'NX');
    locked = res === 'OK';
    if (!locked) await new Promise((resolve) => setTimeout(resolve, 100));
  }
  if (!locked) {
    throw new Error(`Coupon ${code} is being redeemed, please try again`);
  }

  try {
    return await fn();
  } finally {
    await redis.del(key);
  }
}
