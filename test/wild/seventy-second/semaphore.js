'use strict';
// const sem = createSemaphore(new Redis(), 'pdf-render', { limit: 4 });
// await sem.use(async (slot) => { ... });
const { randomUUID } = require('crypto');

const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`;

const TAKE = NOW + `
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local ttl = tonumber(ARGV[3])
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + ttl, ARGV[1])
if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ttl + 1000) end
return 1
`;

const KEEP = NOW + `
local ttl = tonumber(ARGV[2])
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + ttl, ARGV[1])
if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ttl + 1000) end
return 1
`;

const wait = (ms) => new Promise((r) => setTimeout(r, ms));

function createSemaphore(redis, name, opts) {
  const { limit, ttl = 20000, timeout = 60000 } = opts;
  const key = `sem:${name}`;

  async function leave(id) {
    try {
      await redis.zrem(key, id);
    } catch (err) {
      console.error(`semaphore ${name}: slot ${id} left to expire:`, err.message);
    }
  }

  async function enter() {
    const id = randomUUID();
    const giveUp = Date.now() + timeout;
    for (;;) {
      const asked = performance.now();
      let ok;
      try {
        ok = await redis.eval(TAKE, 1, key, id, limit, ttl);
      } catch (err) {
        await leave(id);
        throw err;
      }
      if (ok === 1) return { id, asked };
      if (Date.now() > giveUp) throw new Error(`semaphore ${name}: no slot within ${timeout} ms`);
      await wait(100 + Math.random() * 150);
    }
  }

  // fn gets a slot: slot.signal aborts when the slot is lost, slot.check() throws then.
  async function use(fn) {
    const { id, asked } = await enter();
    const ctl = new AbortController();
    let good = asked + ttl * 0.9;
    let done = false;

    const lost = () => {
      if (!ctl.signal.aborted) ctl.abort(new Error(`semaphore ${name}: slot lost`));
    };
    const check = () => {
      if (performance.now() >= good) lost();
      ctl.signal.throwIfAborted();
    };
    const beat = setInterval(async () => {
      const at = performance.now();
      try {
        const ok = await redis.eval(KEEP, 1, key, id, ttl);
        if (done || ctl.signal.aborted) return;
        if (ok === 1) good = at + ttl * 0.9;
        else lost();
      } catch (err) {
        console.error(`semaphore ${name}: heartbeat failed:`, err.message);
      }
    }, ttl / 4);
    const watch = setInterval(() => {
      if (performance.now() >= good) lost();
    }, Math.max(10, ttl / 50));

    try {
      check();
      const result = await fn({ signal: ctl.signal, check });
      check();
      return result;
    } finally {
      done = true;
      clearInterval(beat);
      clearInterval(watch);
      await leave(id);
    }
  }

  return { use };
}

module.exports = { createSemaphore };
