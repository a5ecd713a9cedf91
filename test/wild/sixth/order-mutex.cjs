'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

/**
 * Reentrant mutex for orders, so that `ship()` can call `invoice()` and both may lock the order.
 */
class OrderMutex {
  /** @param {import('ioredis').Redis} redis */
  constructor(redis, { ttl = 15000, timeout = 10000 } = {}) {
    this.redis = redis;
    this.ttl = ttl;
    this.timeout = timeout;
    this.held = new Map(); // key -> { token, count, deadline }
  }

  async lock(orderId) {
    const key = `order:${orderId}:mutex`;

    const held = this.held.get(key);
    if (held && performance.now() < held.deadline) {
      held.count += 1;
      return held;
    }

    const token = randomUUID();
    const giveUpAt = performance.now() + this.timeout;
    for (;;) {
      const askedAt = performance.now();
      if ((await this.redis.set(key, token, 'PX', this.ttl, 'NX')) === 'OK') {
        const entry = { key, token, count: 1, deadline: askedAt + this.ttl };
        this.held.set(key, entry);
        return entry;
      }
      if (performance.now() > giveUpAt) {
        throw new Error(`order ${orderId} is locked`);
      }
      await sleep(50 + Math.random() * 50);
    }
  }

  async unlock(entry) {
    entry.count -= 1;
    if (entry.count > 0) return;
    if (this.held.get(entry.key) === entry) this.held.delete(entry.key);
    await this.redis.eval(UNLOCK, 1, entry.key, entry.token);
  }

  async runExclusive(orderId, fn) {
    const entry = await this.lock(orderId);
    try {
      return await fn();
    } finally {
      await this.unlock(entry);
    }
  }
}

module.exports = { OrderMutex };
