'use strict';
// Express: one firing at a time per kiln. A sorted set because the other plants
// allow more than one; here the limit is 1. The time is the time of Redis, the
// browsers and app servers do not agree on any.
const { randomUUID } = require('node:crypto');

const ENTER = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 1 end
if redis.call('ZCARD', KEYS[1]) >= 1 then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

const STAY = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local till = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not till or tonumber(till) <= now then return 0 end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

const TTL = 12000;
const SLACK = 400;

/**
 * kiln(redis, req => req.params.kiln, async (req, res, slot) => { ... })
 * The slot is ours until the handler's promise settles. slot.check() before each
 * command to the kiln; it throws when the slot is not certain any more.
 */
function kiln(redis, nameOf, handler) {
  return async (req, res, next) => {
    const key = `kiln:${nameOf(req)}:slots`;
    const id = randomUUID();
    const leave = () => redis.zrem(key, id).catch((e) => console.warn(`${key}: leave:`, e.message));

    let until;
    try {
      const sent = performance.now();
      const r = await redis.eval(ENTER, 1, key, id, TTL);
      if (r !== 1) return void res.status(423).json({ error: 'kiln is in use' });
      until = sent + TTL - SLACK;
    } catch (err) {
      void leave();
      return void next(err);
    }

    let lost = false;
    let timer;
    let over = false;
    const later = () => {
      timer = setTimeout(async () => {
        const sent = performance.now();
        try {
          const r = await redis.eval(STAY, 1, key, id, TTL);
          if (r === 1 && performance.now() < until) until = sent + TTL - SLACK;
          else lost = true;
        } catch (err) {
          console.warn(`${key}: stay:`, err.message);
        }
        if (performance.now() >= until) lost = true;
        if (!over && !lost) later();
      }, TTL / 4);
    };
    later();

    const slot = {
      check() {
        if (performance.now() >= until) lost = true;
        if (lost) throw Object.assign(new Error('kiln slot lost'), { status: 423 });
      },
    };
    try {
      await handler(req, res, slot);
    } catch (err) {
      next(err);
    } finally {
      over = true;
      clearTimeout(timer);
      await leave();
    }
  };
}

function mount(app, redis, plc) {
  app.post(
    '/kilns/:kiln/fire',
    kiln(redis, (req) => req.params.kiln, async (req, res, slot) => {
      for (const step of req.body.curve) {
        slot.check();
        await plc.setTarget(req.params.kiln, step.celsius);
        await plc.hold(req.params.kiln, step.minutes);
      }
      res.json({ fired: true });
    }),
  );
}

module.exports = kiln;
module.exports.mount = mount;
