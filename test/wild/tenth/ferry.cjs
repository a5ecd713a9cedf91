'use strict';

/**
 * ferry - redlock without the frills, for our five redis boxes.
 *
 *   const { make } = require('./ferry');
 *   const ferry = make({ nodes });
 *   const ticket = await ferry.acquire('payout', 4000);
 *   if (ticket) { ...; if (ticket.isValid()) await commit(); await ticket.release(); }
 */
const { randomBytes } = require('node:crypto');

const LUA_RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

const LUA_EXTEND = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call("pttl", KEYS[1]) < tonumber(ARGV[2]) then
  redis.call("pexpire", KEYS[1], ARGV[2])
end
return 1`;

// monotonic, Date.now() jumps when ntp feels like it
const mark = () => process.hrtime();
const msSince = (m) => {
  const [s, ns] = process.hrtime(m);
  return s + ns / 1e6;
};

const sleep = (ms) => new Promise((r) => setTimeout(r, ms));

/** resolves to undefined when the node fails or takes too long */
const tryNode = (promise, ms) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    promise.then(resolve, () => resolve()).finally(() => clearTimeout(timer));
  });

class Ferry {
  constructor(nodes, options = {}) {
    this.nodes = nodes;
    this.quorum = Math.floor(nodes.length / 2) + 1;
    this.options = { retryCount: 8, retryDelay: 120, retryJitter: 80, nodeTimeout: 200, driftFactor: 0.01, ...options };
  }

  ask(ms, fn) {
    return Promise.all(this.nodes.map((n) => tryNode(fn(n), Math.min(ms, this.options.nodeTimeout))));
  }

  validity(ttl) {
    return ttl - ttl * this.options.driftFactor - 2;
  }

  async acquire(resource, ttlMs) {
    const key = `ferry:${resource}`;
    const { retryCount, retryDelay, retryJitter } = this.options;

    for (let i = 0; i <= retryCount; i++) {
      const token = randomBytes(16).toString('hex');
      const begin = mark();
      const replies = await this.ask(ttlMs / 3, (n) => n.set(key, token, 'PX', ttlMs, 'NX'));
      const votes = replies.filter((r) => r === 'OK').length;
      if (votes >= this.quorum && msSince(begin) < this.validity(ttlMs)) {
        return this.ticket(key, token, begin, this.validity(ttlMs));
      }
      await this.ask(ttlMs / 3, (n) => n.eval(LUA_RELEASE, 1, key, token));
      await sleep(retryDelay + Math.random() * retryJitter);
    }
    return null;
  }

  ticket(key, token, begin, validity) {
    let used = false;
    const remaining = () => (used ? 0 : Math.max(0, validity - msSince(begin)));
    return {
      key,
      remaining,
      isValid: () => remaining() > 0,
      extend: async (ttlMs) => {
        if (remaining() <= 0) throw new Error(`${key}: lock is over`);
        const asked = mark();
        const replies = await this.ask(ttlMs / 3, (n) => n.eval(LUA_EXTEND, 1, key, token, ttlMs));
        if (replies.filter((r) => r === 1).length < this.quorum) throw new Error(`${key}: not extended`);
        if (this.validity(ttlMs) - msSince(asked) > remaining()) {
          begin = asked;
          validity = this.validity(ttlMs);
        }
      },
      release: async () => {
        if (used) return;
        used = true;
        await this.ask(1000, (n) => n.eval(LUA_RELEASE, 1, key, token));
      },
    };
  }
}

module.exports = { Ferry, make: ({ nodes }) => new Ferry(nodes) };
