'use strict';

const os = require('node:os');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');

// Sales can override single prices of a price list. The list is one JSON
// document in Redis, so every override is read, change, write under a lock.

// shows up in redis-cli, which helps when somebody asks who holds a list
const OWNER = `${os.hostname()}/${process.pid}/${randomUUID()}`;

const LOCK_MS = 10_000;
const APPROVAL_MS = 4_000;
const WAIT_MS = 12_000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function lockList(redis, key) {
  const until = Date.now() + WAIT_MS;
  for (;;) {
    const reply = await redis.set(key, OWNER, 'PX', LOCK_MS, 'NX');
    if (reply === 'OK') return;
    // ioredis re-sends a SET after a reconnect; it then finds the lock we have already
    if ((await redis.get(key)) === OWNER) return;
    if (Date.now() > until) throw new Error(`price list is locked: ${await redis.get(key)}`);
    await sleep(100 + Math.random() * 150);
  }
}

/**
 * @param {import('ioredis').Redis} redis
 * @param {{ approve(list: string, sku: string, from: number | undefined, to: number, signal: AbortSignal): Promise<boolean> }} approvals
 */
function createPriceOverrides(redis, approvals) {
  return {
    async override(list, sku, price) {
      const lockKey = `prices:{${list}}:lock`;
      const docKey = `prices:{${list}}`;

      await lockList(redis, lockKey);
      try {
        const doc = JSON.parse((await redis.get(docKey)) ?? '{}');
        const approved = await approvals.approve(list, sku, doc[sku], price, AbortSignal.timeout(APPROVAL_MS));
        if (!approved) return { changed: false };

        doc[sku] = price;
        await redis.set(docKey, JSON.stringify(doc));
        return { changed: true };
      } finally {
        await redis.eval(UNLOCK, 1, lockKey, OWNER).catch(() => {});
      }
    },

    async get(list, sku) {
      const doc = JSON.parse((await redis.get(`prices:{${list}}`)) ?? '{}');
      return doc[sku];
    },
  };
}

module.exports = { createPriceOverrides };
