'use strict';

/*
 * Lock with a fencing number (see Kleppmann, "How to do distributed locking").
 *
 * The lock alone only keeps people out of each other's way. What keeps the
 * document whole is the number: it grows with each acquisition, and the table
 * refuses anyone who comes with a smaller one than it has seen.
 *
 *   alter table documents add column fence bigint not null default 0;
 *
 * The counter key must not be evicted (noeviction, appendonly yes). Should it
 * ever go back, edits are refused until it is set above max(fence) again.
 */

const { randomUUID } = require('crypto');

const ACQUIRE = `
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('incr', KEYS[2])
end
return 0
`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

class StaleFenceError extends Error {
  constructor(id, fence) {
    super(`document ${id}: fence ${fence} has been overtaken`);
    this.name = 'StaleFenceError';
    this.code = 'ESTALE';
  }
}

class FencedLock {
  /** @param {import('ioredis').Redis} redis */
  constructor(redis, { prefix = 'fl', leaseMs = 20000 } = {}) {
    this.redis = redis;
    this.prefix = prefix;
    this.leaseMs = leaseMs;
    redis.defineCommand('flAcquire', { numberOfKeys: 2, lua: ACQUIRE });
    redis.defineCommand('flRelease', { numberOfKeys: 1, lua: RELEASE });
  }

  keys(id) {
    const base = `${this.prefix}:{${id}}`;
    return [`${base}:lock`, `${base}:fence`];
  }

  async tryAcquire(id) {
    const token = randomUUID();
    const [lockKey, fenceKey] = this.keys(id);
    let fence;
    try {
      fence = await this.redis.flAcquire(lockKey, fenceKey, token, this.leaseMs);
    } catch (err) {
      await this.redis.flRelease(lockKey, token).catch(() => {});
      throw err;
    }
    if (fence === 0) {
      // no-op unless the script ran twice for us after a reconnect
      await this.redis.flRelease(lockKey, token).catch(() => {});
      return null;
    }
    return { id, fence, release: () => this.redis.flRelease(lockKey, token) };
  }

  async acquire(id, { tries = 40, delayMs = 250 } = {}) {
    for (let i = 0; i < tries; i++) {
      const lock = await this.tryAcquire(id);
      if (lock) return lock;
      await new Promise((r) => setTimeout(r, delayMs * (0.5 + Math.random())));
    }
    throw new Error(`document ${id} is being edited by somebody else`);
  }
}

/**
 * Read, change and write one document.
 * Reading already leaves our number in the row, so the one that had the lock before
 * us cannot slip a write in between our read and our write.
 */
async function editDocument(lock, pool, id, change) {
  const held = await lock.acquire(id);
  try {
    const read = await pool.query(
      'update documents set fence = $2 where id = $1 and fence < $2 returning body',
      [id, held.fence],
    );
    if (read.rowCount === 0) throw new StaleFenceError(id, held.fence);

    const body = await change(read.rows[0].body);

    const write = await pool.query(
      'update documents set body = $3, updated_at = now() where id = $1 and fence = $2',
      [id, held.fence, body],
    );
    if (write.rowCount === 0) throw new StaleFenceError(id, held.fence);
    return body;
  } finally {
    await held.release().catch((err) => {
      console.warn(`release of ${id} failed, lease will run out: ${err.message}`);
    });
  }
}

module.exports = { FencedLock, StaleFenceError, editDocument };
