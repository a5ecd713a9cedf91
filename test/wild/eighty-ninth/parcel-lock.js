'use strict';

/**
 * Locks of the land registry.
 *
 * A parcel is changed by one procedure at a time. Procedures are made of smaller ones
 * (a transfer redraws the boundary, which in turn updates the tax class), and each of
 * them locks the parcel it works on. The lock is therefore reentrant: who has the
 * parcel can lock it again, and it is free when the outermost procedure has ended.
 */

const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

/** Another procedure is changing the parcel. */
class ParcelBusyError extends Error {
  constructor(parcel) {
    super(`parcel ${parcel} is being changed by another procedure`);
    this.name = 'ParcelBusyError';
  }
}

/** The lock was lost; changes made from here on would not be protected. */
class ParcelLockLostError extends Error {
  constructor(parcel) {
    super(`lock of parcel ${parcel} was lost`);
    this.name = 'ParcelLockLostError';
  }
}

class ParcelLock {
  /**
   * @param {import('ioredis').Redis} redis
   * @param {{ ttlMs?: number }} [options]
   */
  constructor(redis, { ttlMs = 20_000 } = {}) {
    this.redis = redis;
    this.ttlMs = ttlMs;
    /** Parcels we have, by number. */
    this.held = new Map();
  }

  /**
   * Runs one procedure on a parcel; may be nested.
   *
   * @template T
   * @param {string} parcel
   * @param {(ensure: (needMs: number) => void) => Promise<T>} procedure calls
   *   `ensure` before each write with the time the write may take
   * @returns {Promise<T>}
   */
  async run(parcel, procedure) {
    const lease = await this.enter(parcel);
    try {
      return await procedure((needMs) => {
        if (lease.validUntil - performance.now() < needMs) throw new ParcelLockLostError(parcel);
      });
    } finally {
      await this.leave(parcel, lease);
    }
  }

  async enter(parcel) {
    const mine = this.held.get(parcel);
    if (mine) {
      mine.depth += 1;
      return mine;
    }

    const key = `registry:parcel:${parcel}:lock`;
    const token = randomUUID();
    const askedAt = performance.now();
    const reply = await this.redis.set(key, token, 'PX', this.ttlMs, 'NX');
    if (reply !== 'OK') throw new ParcelBusyError(parcel);

    const lease = { key, token, depth: 1, validUntil: askedAt + this.ttlMs * 0.95 };
    lease.timer = setInterval(() => this.renew(lease), this.ttlMs / 4);
    this.held.set(parcel, lease);
    return lease;
  }

  async renew(lease) {
    const askedAt = performance.now();
    try {
      const kept = await this.redis.eval(RENEW, 1, lease.key, lease.token, this.ttlMs);
      lease.validUntil = kept === 1 ? askedAt + this.ttlMs * 0.95 : 0;
    } catch (err) {
      console.warn(`renewal of ${lease.key} failed: ${err.message}`);
    }
  }

  async leave(parcel, lease) {
    lease.depth -= 1;
    if (lease.depth > 0) return;

    clearInterval(lease.timer);
    this.held.delete(parcel);
    try {
      await this.redis.eval(RELEASE, 1, lease.key, lease.token);
    } catch (err) {
      console.warn(`${lease.key} left to expire: ${err.message}`);
    }
  }
}

const redis = new Redis(process.env.REDIS_URL);
redis.on('error', (err) => console.error('redis:', err.message));

/** One for the whole registry service, so that nested procedures find each other. */
const parcels = new ParcelLock(redis);

module.exports = { ParcelLock, ParcelBusyError, ParcelLockLostError, parcels };
