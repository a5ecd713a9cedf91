'use strict';

const crypto = require('crypto');
const { performance } = require('perf_hooks');

const LIFT = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

const STAY = `
  if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 0
  end
  if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
  end
  return 1
`;

const defaults = { nodeTimeout: 200, tries: 10, pause: 100 };

/**
 * @param {import('ioredis').Redis[]} nodes  independent masters, an odd number of them
 */
function createGatehouse(nodes, options) {
  const { nodeTimeout, tries, pause } = { ...defaults, ...options };
  const quorum = Math.floor(nodes.length / 2) + 1;

  const worth = (ttl) => ttl - ttl * 0.01 - 2;

  // sends to every node, counts those who gave the wanted reply in time
  async function count(wanted, ms, command) {
    const answers = nodes.map((node) => {
      let timer;
      const timeout = new Promise((resolve) => {
        timer = setTimeout(resolve, Math.min(ms, nodeTimeout), false);
      });
      const answer = command(node).then((r) => r === wanted, () => false);
      return Promise.race([answer, timeout]).finally(() => clearTimeout(timer));
    });
    return (await Promise.all(answers)).filter(Boolean).length;
  }

  async function acquire(resource, ttlMs) {
    const key = `gate:${resource}`;
    for (let i = 0; i < tries; i++) {
      const token = crypto.randomBytes(16).toString('hex');
      const t0 = performance.now();
      const granted = await count('OK', ttlMs / 3, (node) => node.set(key, token, 'PX', ttlMs, 'NX'));
      const deadline = t0 + worth(ttlMs);

      if (granted >= quorum && performance.now() < deadline) {
        return gate(key, token, deadline);
      }

      // no majority: clear up behind us, a half-set lock would only block the next one
      await count(1, ttlMs / 3, (node) => node.del(key));
      await new Promise((r) => setTimeout(r, pause * (0.5 + Math.random())));
    }
    const err = new Error(`gatehouse: ${resource} is closed`);
    err.code = 'ELOCKED';
    throw err;
  }

  function gate(key, token, deadline) {
    let open = true;
    const remaining = () => (open ? Math.max(0, deadline - performance.now()) : 0);
    return {
      remaining,
      isValid: () => remaining() > 0,
      async extend(ttlMs) {
        if (remaining() === 0) throw new Error(`gatehouse: ${key} is over`);
        const t0 = performance.now();
        const stayed = await count(1, ttlMs / 3, (node) => node.eval(STAY, 1, key, token, ttlMs));
        if (stayed < quorum) throw new Error(`gatehouse: ${key} was not extended`);
        deadline = Math.max(deadline, t0 + worth(ttlMs));
      },
      async release() {
        if (!open) return;
        open = false;
        await count(1, 1000, (node) => node.eval(LIFT, 1, key, token));
      },
    };
  }

  return { acquire };
}

module.exports = { createGatehouse, make: ({ nodes }) => createGatehouse(nodes) };
