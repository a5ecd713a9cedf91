'use strict';

/**
 * Reentrant Redis lock for Node, modelled on Redisson's RLock.
 *
 *   const locks = new ReentrantLocks(redis);
 *   await locks.run(`account:${id}`, async () => {
 *     await chargeFee(id);      // takes account:<id> again, no deadlock
 *     await bookTransfer(id);   // same
 *   });
 *
 * The lock is a hash { owner: depth }. It goes away when depth is back to 0.
 */

const os = require('os');
const { EventEmitter } = require('events');

const LOCK = `
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return -1
end
return redis.call('pttl', KEYS[1])
`;

const UNLOCK = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return -1 end
local depth = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if depth > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return depth
end
redis.call('del', KEYS[1])
return 0
`;

const RENEW = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0
`;

class LockTimeout extends Error {
  constructor(name, ms) {
    super(`Timed out after ${ms}ms waiting for ${name}`);
    this.code = 'LOCK_TIMEOUT';
  }
}

class ReentrantLocks extends EventEmitter {
  constructor(redis, { leaseMs = 30000, waitMs = 15000, prefix = 'rlock:' } = {}) {
    super();
    this.redis = redis;
    this.leaseMs = leaseMs;
    this.waitMs = waitMs;
    this.prefix = prefix;
    this.owner = `${os.hostname()}:${process.pid}`;
  }

  async lock(name) {
    const key = this.prefix + name;
    const start = Date.now();
    for (;;) {
      const left = await this.redis.eval(LOCK, 1, key, this.owner, this.leaseMs);
      if (left === -1) return key;
      if (Date.now() - start > this.waitMs) throw new LockTimeout(name, this.waitMs);
      const pause = Math.min(Math.max(left, 20), 100 + Math.random() * 100);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  async unlock(name) {
    const depth = await this.redis.eval(UNLOCK, 1, this.prefix + name, this.owner, this.leaseMs);
    if (depth === -1) this.emit('lost', name);
    return depth;
  }

  async run(name, fn) {
    const key = await this.lock(name);
    const ac = new AbortController();
    const abort = (why) => ac.abort(new Error(`lock ${name} lost: ${why}`));

    let alarm = setTimeout(abort, this.leaseMs * 0.9, 'lease ran out');
    const watchdog = setInterval(async () => {
      try {
        const ok = await this.redis.eval(RENEW, 1, key, this.owner, this.leaseMs);
        if (ac.signal.aborted) return;
        if (ok === 0) return abort('gone');
        alarm.refresh();
      } catch (err) {
        this.emit('renew-failed', name, err);
      }
    }, this.leaseMs / 4);

    try {
      return await fn(ac.signal);
    } finally {
      clearInterval(watchdog);
      clearTimeout(alarm);
      await this.unlock(name).catch((err) => this.emit('unlock-failed', name, err));
    }
  }
}

module.exports = { ReentrantLocks, LockTimeout };
