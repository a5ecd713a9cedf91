const { randomUUID, createHash, createHmac } = require('node:crypto');

const LOCK = `
local got = redis.call('HSETNX', KEYS[1], 'owner', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return got
`;

const UNLOCK = `
if redis.call('HGET', KEYS[1], 'owner') == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

class Script {
  constructor(lua) {
    this.lua = lua;
    this.sha = createHash('sha1').update(lua).digest('hex');
  }

  async run(redis, key, ...args) {
    try {
      return await redis.evalsha(this.sha, 1, key, ...args);
    } catch (err) {
      if (!String(err.message).startsWith('NOSCRIPT')) throw err;
      return redis.eval(this.lua, 1, key, ...args);
    }
  }
}

const lockScript = new Script(LOCK);
const unlockScript = new Script(UNLOCK);

class EndpointBusy extends Error {}

/**
 * Webhooks of one endpoint go out in order: one dispatcher at a time.
 * @param {{ redis: import('ioredis').Redis, ttlMs?: number, pollMs?: number }} deps
 */
function createDispatcher({ redis, ttlMs = 10000, pollMs = 500, maxPolls = 60 }) {
  async function exclusive(endpoint, fn) {
    const key = `webhooks:${endpoint}`;
    const owner = randomUUID();
    let polls = 0;
    while ((await lockScript.run(redis, key, owner, ttlMs)) !== 1) {
      polls += 1;
      if (polls > maxPolls) throw new EndpointBusy(endpoint);
      await new Promise((resolve) => setTimeout(resolve, pollMs));
    }
    try {
      return await fn();
    } finally {
      await unlockScript.run(redis, key, owner);
    }
  }

  return {
    dispatch: (endpoint, events, post) =>
      exclusive(endpoint, async () => {
        for (const event of events) await post(endpoint, event);
        return events.length;
      }),
  };
}

function signature(secret, body) {
  return createHmac('sha256', secret).update(body).digest('hex');
}

module.exports = { createDispatcher, EndpointBusy, signature };
