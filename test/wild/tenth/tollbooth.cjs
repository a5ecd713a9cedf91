'use strict';

const { randomUUID } = require('crypto');
const { performance } = require('perf_hooks');

/**
 * tollbooth: one car at a time. One redis.
 *
 *   const booth = new Tollbooth(redis);
 *   const car = await booth.acquire('lane:3', 5000);
 *   try { ... if (!car.isValid()) stop(); ... } finally { await car.release(); }
 */

const DRIVE_OFF = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const LINGER = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1`;

class TollboothError extends Error {}

const within = (ms, promise) => {
  let timer;
  const slow = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new TollboothError(`redis: no reply in ${ms} ms`)), ms);
  });
  return Promise.race([promise, slow]).finally(() => clearTimeout(timer));
};

class Tollbooth {
  constructor(redis, { maxWait = 5000, poll = 100 } = {}) {
    this.redis = redis;
    this.maxWait = maxWait;
    this.poll = poll;
  }

  async acquire(resource, ttlMs) {
    const key = `toll:${resource}`;
    const end = performance.now() + this.maxWait;

    for (;;) {
      const plate = randomUUID();
      const arrived = performance.now();
      if (await this.enter(key, plate, ttlMs)) {
        const deadline = arrived + this.worth(ttlMs);
        if (performance.now() < deadline) return this.car(key, plate, deadline);
        await this.driveOff(key, plate);
      }
      if (performance.now() >= end) throw new TollboothError(`${resource}: the queue is too long`);
      await new Promise((resolve) => setTimeout(resolve, this.poll * (0.5 + Math.random())));
    }
  }

  // value and expiry in one transaction, so there is never a key without a ttl
  async enter(key, plate, ttlMs) {
    try {
      const replies = await within(1000, this.redis.multi().set(key, plate, 'NX').pexpire(key, ttlMs).exec());
      for (const [err] of replies) if (err) throw err;
      return replies[0][1] === 'OK';
    } catch (err) {
      this.driveOff(key, plate).catch(() => {});
      throw err;
    }
  }

  car(key, plate, deadline) {
    let gone = false;
    const remaining = () => (gone ? 0 : Math.max(0, deadline - performance.now()));
    return {
      remaining,
      isValid: () => remaining() > 0,
      extend: async (ttlMs) => {
        if (remaining() === 0) return false;
        const asked = performance.now();
        const reply = await within(1000, this.redis.eval(LINGER, 1, key, plate, ttlMs));
        if (reply !== 1) return false;
        deadline = Math.max(deadline, asked + this.worth(ttlMs));
        return remaining() > 0;
      },
      release: async () => {
        if (gone) return false;
        gone = true;
        return (await this.driveOff(key, plate)) === 1;
      },
    };
  }

  driveOff(key, plate) {
    return within(1000, this.redis.eval(DRIVE_OFF, 1, key, plate));
  }

  worth(ttlMs) {
    return ttlMs - ttlMs * 0.01 - 2;
  }
}

module.exports = Tollbooth;
module.exports.make = ({ nodes }) => new Tollbooth(nodes[0]);
