'use strict';

/**
 * redis-reentrant-mutex
 *
 * A distributed mutex for Node that can be entered again by the one who has it:
 *
 *   const mutex = new ReentrantMutex(new Redis());
 *
 *   async function addLine(orderId, line) {
 *     return mutex.run(`order:${orderId}`, async () => { ... await recalc(orderId); });
 *   }
 *   async function recalc(orderId) {
 *     return mutex.run(`order:${orderId}`, async () => { ... });   // fine, no deadlock
 *   }
 *
 * Inspired by the RLock of Redisson: the lock is a hash with the owner and the depth.
 */

const os = require('os');
const { EventEmitter } = require('events');

const ENTER = `
local owner = redis.call('hget', KEYS[1], 'owner')
if owner and owner ~= ARGV[1] then
  return redis.call('pttl', KEYS[1])
end
redis.call('hset', KEYS[1], 'owner', ARGV[1])
redis.call('hincrby', KEYS[1], 'depth', 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return -10`;

const LEAVE = `
if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then return -1 end
local depth = redis.call('hincrby', KEYS[1], 'depth', -1)
if depth <= 0 then redis.call('del', KEYS[1]) end
return depth`;

const RENEW = `
if redis.call('hget', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])`;

class MutexTimeoutError extends Error {
  constructor(key, waited) {
    super(`could not enter ${key} within ${waited} ms`);
    this.name = 'MutexTimeoutError';
  }
}

class ReentrantMutex extends EventEmitter {
  constructor(redis, { prefix = 'rmutex:', ttl = 20000, timeout = 10000 } = {}) {
    super();
    this.redis = redis;
    this.prefix = prefix;
    this.ttl = ttl;
    this.timeout = timeout;
    // who we are: unique in the whole fleet
    this.owner = `${os.hostname()}:${process.pid}:${Date.now()}`;
  }

  async enter(name) {
    const key = this.prefix + name;
    const started = Date.now();
    for (;;) {
      const left = await this.redis.eval(ENTER, 1, key, this.owner, this.ttl);
      if (left === -10) return;
      if (Date.now() - started > this.timeout) throw new MutexTimeoutError(name, this.timeout);
      // no need to ask much before the lock can run out, but it may be left early
      await new Promise((resolve) => setTimeout(resolve, Math.max(20, Math.min(left, 150)) * (0.5 + Math.random())));
    }
  }

  async leave(name) {
    const depth = await this.redis.eval(LEAVE, 1, this.prefix + name, this.owner);
    if (depth === -1) this.emit('lost', name);
    return depth;
  }

  async run(name, fn) {
    await this.enter(name);

    const controller = new AbortController();
    let until = Date.now() + this.ttl;
    const timer = setInterval(async () => {
      const asked = Date.now();
      try {
        if (await this.redis.eval(RENEW, 1, this.prefix + name, this.owner, this.ttl)) {
          until = asked + this.ttl;
          return;
        }
        controller.abort();
      } catch (err) {
        this.emit('renew-failed', name, err);
        if (Date.now() > until - this.ttl / 5) controller.abort();
      }
    }, this.ttl / 6);

    try {
      return await fn(controller.signal);
    } finally {
      clearInterval(timer);
      await this.leave(name).catch((err) => this.emit('leave-failed', name, err));
    }
  }
}

module.exports = ReentrantMutex;
module.exports.ReentrantMutex = ReentrantMutex;
module.exports.MutexTimeoutError = MutexTimeoutError;
