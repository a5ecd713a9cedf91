'use strict';

const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const TTL_MS = 8000;

async function connect() {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (err) => console.warn('redis:', err.message));
  await client.connect();
  return client;
}

/**
 * @returns {Promise<{ key: string, token: string, validUntil: number } | null>} null if the coupon is being redeemed
 */
async function acquireCoupon(client, code) {
  const key = `coupon:lock:${code.trim().toUpperCase()}`;
  const token = randomUUID();
  const sentAt = performance.now();
  const lock = { key, token, validUntil: sentAt + TTL_MS * 0.95 };
  let reply;
  try {
    reply = await client.set(key, token, { NX: true, PX: TTL_MS });
  } catch (err) {
    // Unknown whether it was set, so take it back if it was.
    await releaseCoupon(client, lock).catch(() => {});
    throw err;
  }
  return reply === 'OK' ? lock : null;
}

/**
 * Gives the coupon back and wakes the checkouts that wait for it.
 * Only the owner may do so; false if the lock had expired meanwhile.
 */
async function releaseCoupon(client, lock) {
  const owner = await client.get(lock.key);
  if (owner !== lock.token) {
    return false;
  }
  const [removed] = await client
    .multi()
    .del(lock.key)
    .publish('coupon:released', lock.key)
    .exec();
  return removed === 1;
}

/**
 * @param {{ usesLeft(code: string, signal: AbortSignal): Promise<number>,
 *           redeem(code: string, orderId: string, signal: AbortSignal): Promise<void> }} coupons
 */
async function redeemCoupon(client, coupons, code, orderId) {
  const lock = await acquireCoupon(client, code);
  if (lock === null) return { ok: false, reason: 'busy' };

  try {
    const left = Math.floor(lock.validUntil - performance.now());
    if (left <= 0) return { ok: false, reason: 'busy' };
    // Both calls give up when the lock is about to run out.
    const signal = AbortSignal.timeout(left);
    if ((await coupons.usesLeft(code, signal)) < 1) {
      return { ok: false, reason: 'used up' };
    }
    if (performance.now() >= lock.validUntil) return { ok: false, reason: 'busy' };
    await coupons.redeem(code, orderId, signal);
    return { ok: true };
  } finally {
    await releaseCoupon(client, lock).catch((err) => {
      console.warn('release of %s failed, it expires in a moment: %s', lock.key, err.message);
    });
  }
}

module.exports = { connect, acquireCoupon, releaseCoupon, redeemCoupon };
