import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';

// koa middleware + handler. A coupon code has a number of uses left in mysql; two requests must
// not read the same number, so redeeming one code is exclusive across all pods.

const redis = new Redis({
  host: process.env.REDIS_HOST ?? 'localhost',
  port: Number(process.env.REDIS_PORT ?? 6379),
  commandTimeout: 400,
  maxRetriesPerRequest: 1,
});
redis.on('error', (err) => console.error('coupon redis', err.message));

const TTL_MS = 10_000;
const RESERVE_MS = 1_000;
const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function lockCode(code, log) {
  const key = `coupon:${code}`;
  const token = randomUUID();
  const endsAt = performance.now() + TTL_MS - RESERVE_MS;
  const lock = {
    msLeft: () => endsAt - performance.now(),
    async release() {
      await redis.eval(UNLOCK, 1, key, token).catch((err) => log.warn({ err, code }, 'coupon unlock'));
    },
  };

  try {
    const reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
    return reply === 'OK' ? lock : null;
  } catch (err) {
    log.warn({ err, code }, 'coupon lock unavailable');
    return lock;
  }
}

/** koa: wraps the routes that change a coupon */
export function exclusiveCoupon() {
  return async (ctx, next) => {
    const code = String(ctx.params.code ?? '').trim().toUpperCase();
    if (!/^[A-Z0-9-]{4,24}$/.test(code)) ctx.throw(400, 'bad code');

    const lock = await lockCode(code, ctx.log);
    if (!lock) {
      ctx.status = 409;
      ctx.set('retry-after', '1');
      ctx.body = { error: 'coupon is being redeemed, try again' };
      return;
    }
    ctx.state.couponCode = code;
    ctx.state.couponLock = lock;
    try {
      await next();
    } finally {
      await lock.release();
    }
  };
}

const SAVE_MS = 2_000;

export function redeem(coupons) {
  return async (ctx) => {
    const { couponCode: code, couponLock: lock } = ctx.state;
    const coupon = await coupons.find(code, { timeoutMs: 2_000 });
    if (!coupon) ctx.throw(404, 'unknown coupon');
    if (coupon.usesLeft < 1) ctx.throw(410, 'coupon used up');

    if (lock.msLeft() < SAVE_MS) ctx.throw(503, 'too slow');
    await coupons.save(
      { ...coupon, usesLeft: coupon.usesLeft - 1, lastUser: ctx.state.user.id },
      { timeoutMs: SAVE_MS },
    );
    ctx.body = { code, discount: coupon.discount, usesLeft: coupon.usesLeft - 1 };
  };
}

export const close = () => redis.quit();
