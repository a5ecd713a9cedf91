'use strict';

/**
 * Lock with fencing tokens, node-redis v4.
 *
 *   const lock = new FencedLock(client);
 *   await adjustBalance(lock, pool, 'acc_42', (balance) => pricing.settle(balance));
 *
 * Waiters sleep in BLPOP on a small "wake" list instead of polling hard.
 */

const { randomUUID } = require('node:crypto');
const { commandOptions } = require('redis');

// The fence counter has no TTL on purpose: it must only ever grow.
const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('DEL', KEYS[1])
if redis.call('LLEN', KEYS[2]) == 0 then
  redis.call('RPUSH', KEYS[2], '1')
end
redis.call('PEXPIRE', KEYS[2], 5000)
return 1
`;

class StaleFenceError extends Error {
  constructor(id, fence) {
    super(`Write to ${id} with fence ${fence} refused: a newer holder was there`);
    this.name = 'StaleFenceError';
  }
}

class FencedLock {
  constructor(client, { ttlMs = 20_000, waitMs = 30_000 } = {}) {
    this.client = client;
    this.ttlMs = ttlMs;
    this.waitMs = waitMs;
  }

  #keys(name) {
    return { lock: `{fl:${name}}`, fence: `{fl:${name}}:fence`, wake: `{fl:${name}}:wake` };
  }

  async acquire(name) {
    const k = this.#keys(name);
    const token = randomUUID();
    const giveUp = Date.now() + this.waitMs;

    for (;;) {
      const fence = await this.client.eval(ACQUIRE, {
        keys: [k.lock, k.fence],
        arguments: [token, String(this.ttlMs)],
      });
      if (fence > 0) return { name, token, fence };
      if (Date.now() >= giveUp) throw new Error(`lock ${name}: timed out after ${this.waitMs}ms`);

      // Either somebody releases, or we look again after two seconds, because
      // a holder which crashed will not push anything.
      await this.client.blPop(commandOptions({ isolated: true }), k.wake, 2);
    }
  }

  async release({ name, token }) {
    const k = this.#keys(name);
    const n = await this.client.eval(RELEASE, { keys: [k.lock, k.wake], arguments: [token] });
    return n === 1;
  }

  async run(name, fn) {
    const held = await this.acquire(name);
    try {
      return await fn(held.fence);
    } finally {
      await this.release(held).catch((err) => {
        console.warn(`lock ${name}: release failed, leaving it to the TTL`, err.message);
      });
    }
  }
}

/**
 * Read, compute, write. The read stamps our fence on the row, the write asks
 * that no higher fence has been stamped since.
 */
async function adjustBalance(lock, db, id, compute) {
  return lock.run(`account:${id}`, async (fence) => {
    const read = await db.query(
      'UPDATE accounts SET fence = $2 WHERE id = $1 AND fence <= $2 RETURNING balance',
      [id, fence],
    );
    if (read.rowCount === 0) throw new StaleFenceError(id, fence);

    const next = await compute(read.rows[0].balance);

    const write = await db.query(
      'UPDATE accounts SET balance = $3, updated_at = now() WHERE id = $1 AND fence = $2',
      [id, fence, next],
    );
    if (write.rowCount === 0) throw new StaleFenceError(id, fence);
    return next;
  });
}

module.exports = { FencedLock, StaleFenceError, adjustBalance };
