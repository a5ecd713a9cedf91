import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Redis } from 'ioredis';

/**
 * Redeems campaign coupons. The rules engine decides per customer, under the
 * campaign's lock; the counter is only moved by a script that sees the lock,
 * so a holder whose lock ran out while the engine was thinking is refused.
 */
const TTL_MS = 10_000;
const OWNER = `${hostname()}:${process.pid}:${randomUUID()}`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const TAKE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return -1 end
redis.call('hset', KEYS[2], ARGV[2], ARGV[3])
return redis.call('hlen', KEYS[2])`;

export interface RulesEngine {
  /** How many coupons the customer gets, given how many are gone. */
  decide(campaign: string, customerId: string, redeemed: number): Promise<number>;
}

export class CampaignBusyError extends Error {}
export class RedemptionLostError extends Error {}

async function acquire(redis: Redis, key: string): Promise<boolean> {
  try {
    return (await redis.set(key, OWNER, 'PX', TTL_MS, 'NX')) === 'OK';
  } catch (err) {
    await release(redis, key);
    throw err;
  }
}

async function release(redis: Redis, key: string): Promise<void> {
  try {
    await redis.eval(RELEASE, 1, key, OWNER);
  } catch (err) {
    console.warn('coupon lock left to its TTL', key, err);
  }
}

export async function redeem(
  redis: Redis,
  rules: RulesEngine,
  campaign: string,
  customerId: string,
): Promise<{ granted: number }> {
  const key = `coupon:{${campaign}}:lock`;
  const redeemedKey = `coupon:{${campaign}}:redeemed`;

  if (!(await acquire(redis, key))) {
    throw new CampaignBusyError(`campaign ${campaign} is busy, try again`);
  }
  try {
    const redeemed = await redis.hlen(redeemedKey);
    const granted = await rules.decide(campaign, customerId, redeemed);
    if (granted <= 0) return { granted: 0 };

    const total = await redis.eval(TAKE, 2, key, redeemedKey, OWNER, customerId, granted);
    if (total === -1) {
      throw new RedemptionLostError(`lock of ${campaign} ran out, nothing was redeemed`);
    }
    return { granted };
  } finally {
    await release(redis, key);
  }
}
