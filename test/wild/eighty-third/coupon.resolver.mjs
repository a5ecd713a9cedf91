import { GraphQLError } from 'graphql';
import Redis from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';
import knexFactory from 'knex';

const knex = knexFactory({ client: 'pg', connection: process.env.DATABASE_URL });
const redlock = new Redlock([new Redis(process.env.REDIS_URL)], { retryCount: 8, retryDelay: 150 });
redlock.on('error', () => {});

async function withCoupon(code, fn) {
  let lock;
  try {
    lock = await redlock.acquire([`coupon:${code}`], 10_000);
  } catch (err) {
    if (err instanceof ExecutionError) {
      throw new GraphQLError('Coupon is in use, try again', { extensions: { code: 'BUSY' } });
    }
    throw err;
  }
  try {
    return fn();
  } finally {
    await lock.release().catch((err) => console.warn('coupon lock', err.message));
  }
}

async function redeem(code, cartId, userId) {
  const coupon = await knex('coupons').where({ code }).first();
  if (!coupon || coupon.expires_at < new Date()) {
    throw new GraphQLError('Unknown coupon', { extensions: { code: 'NOT_FOUND' } });
  }
  const [{ count }] = await knex('redemptions').where({ coupon_id: coupon.id }).count();
  if (Number(count) >= coupon.max_uses) {
    throw new GraphQLError('Coupon is used up', { extensions: { code: 'USED_UP' } });
  }
  await knex('redemptions').insert({ coupon_id: coupon.id, cart_id: cartId, user_id: userId });
  await knex('carts').where({ id: cartId }).update({ coupon_id: coupon.id });
  return knex('carts').where({ id: cartId }).first();
}

export const resolvers = {
  Mutation: {
    applyCoupon(_parent, { code, cartId }, { user }) {
      if (!user) throw new GraphQLError('Sign in first', { extensions: { code: 'UNAUTHENTICATED' } });
      const normal = code.trim().toUpperCase();
      return withCoupon(normal, () => redeem(normal, cartId, user.id));
    },
  },
};
