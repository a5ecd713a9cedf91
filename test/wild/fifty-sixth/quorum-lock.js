const crypto = require('crypto');
const { setTimeout: sleep } = require('timers/promises');

const UNLOCK = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';
const EXTEND = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end';

const CLOCK_DRIFT = 0.01;

const nowMs = () => Number(process.hrtime.bigint() / 1000000n);

/** Resolves to the number of nodes that said yes; a slow or failing node says nothing. */
async function poll(nodes, nodeTimeout, ask, isYes) {
  const answers = await Promise.all(
    nodes.map(async (node) => {
      let timer;
      const late = new Promise((resolve) => {
        timer = setTimeout(resolve, nodeTimeout, undefined);
      });
      try {
        return isYes(await Promise.race([ask(node), late]));
      } catch (err) {
        return false;
      } finally {
        clearTimeout(timer);
      }
    }),
  );
  return answers.filter(Boolean).length;
}

/**
 * Lock over independent Redis masters.
 *
 *   const locks = new QuorumLock([redisA, redisB, redisC])   // ioredis instances
 *   const lock = await locks.acquire('settlement:2231', 20000)
 *   ... work, and be through before lock.validUntil (lock.timeLeft() ms from now), or extend
 *   await locks.release(lock)
 */
class QuorumLock {
  constructor(nodes, { nodeTimeout = 60, retries = 8, retryDelay = 200, prefix = 'ql:' } = {}) {
    if (nodes.length === 0) throw new Error('QuorumLock needs at least one node');
    this.nodes = nodes;
    this.majority = (nodes.length >> 1) + 1;
    this.nodeTimeout = nodeTimeout;
    this.retries = retries;
    this.retryDelay = retryDelay;
    this.prefix = prefix;
  }

  _validUntil(startedAt, ttl) {
    return startedAt + ttl - Math.ceil(ttl * CLOCK_DRIFT) - 2;
  }

  async acquire(resource, ttl) {
    if (!Number.isSafeInteger(ttl) || ttl <= 0) throw new TypeError('ttl: positive integer (ms) expected');
    const key = this.prefix + resource;

    for (let attempt = 0; attempt <= this.retries; attempt++) {
      const value = crypto.randomBytes(20).toString('base64');
      const startedAt = nowMs();
      const yes = await poll(
        this.nodes,
        this.nodeTimeout,
        (node) => node.set(key, value, 'PX', ttl, 'NX'),
        (reply) => reply === 'OK',
      );
      const validUntil = this._validUntil(startedAt, ttl);
      if (yes >= this.majority && validUntil > nowMs()) {
        return { key, value, ttl, validUntil, released: false, timeLeft: timeLeftOf };
      }
      // also on those that seemed to refuse: their answer may just have been late
      await this._unlockAll(key, value);
      await sleep(Math.floor(this.retryDelay * (0.5 + Math.random())));
    }
    return null;
  }

  async extend(lock, ttl = lock.ttl) {
    if (ttl < lock.ttl) throw new RangeError('extend cannot shorten');
    if (lock.timeLeft() <= 0) return false;
    const startedAt = nowMs();
    const yes = await poll(
      this.nodes,
      this.nodeTimeout,
      (node) => node.eval(EXTEND, 1, lock.key, lock.value, ttl),
      (reply) => reply === 1,
    );
    const validUntil = this._validUntil(startedAt, ttl);
    if (lock.released || yes < this.majority || validUntil <= nowMs()) return false;
    lock.ttl = ttl;
    lock.validUntil = validUntil;
    return true;
  }

  async release(lock) {
    lock.released = true;
    lock.validUntil = 0;
    await this._unlockAll(lock.key, lock.value);
  }

  _unlockAll(key, value) {
    return poll(this.nodes, this.nodeTimeout, (node) => node.eval(UNLOCK, 1, key, value), (n) => n === 1);
  }
}

function timeLeftOf() {
  return Math.max(0, this.validUntil - nowMs());
}

module.exports = { QuorumLock };
