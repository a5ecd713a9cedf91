'use strict';

const { randomUUID } = require('crypto');
const { spawn } = require('child_process');

/*
 * Our license allows N renderers at a time over all machines. A slot is a member of a
 * sorted set with the time it runs out as score. All times are those of the Redis
 * server: machines in the render farm have had clocks minutes apart.
 *
 * The vendor samples once a minute and allows for a renderer on its way out, so a few
 * seconds of overlap (our process stopped, its renderer not yet killed) are within the
 * contract. Renderers die with us: setpriv asks the kernel for that.
 */

const TAKE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[3]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[3]) * 2)
return 1
`;

const KEEP = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) <= now then
  return 0
end
redis.call('ZADD', KEYS[1], 'XX', now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) * 2)
return 1
`;

const SLOT_MS = 30000;
const KILL_MARGIN_MS = 6000; // SIGKILL takes effect well within this
const HEARTBEAT_MS = 5000;

class RenderSlots {
  /**
   * @param {import('ioredis').Redis} redis
   * @param {{ pool: string, limit: number, log?: Console, metrics?: any }} options
   */
  constructor(redis, { pool, limit, log = console, metrics }) {
    this.redis = redis;
    this.key = `render:slots:${pool}`;
    this.limit = limit;
    this.log = log;
    this.metrics = metrics;
  }

  async take() {
    const member = randomUUID();
    const askedAt = performance.now();
    const got = await this.redis.eval(TAKE, 1, this.key, member, this.limit, SLOT_MS);
    if (got !== 1) return null;
    return { member, goodUntil: askedAt + SLOT_MS };
  }

  async keep(slot) {
    const askedAt = performance.now();
    const kept = await this.redis.eval(KEEP, 1, this.key, slot.member, SLOT_MS);
    if (kept !== 1) return false;
    slot.goodUntil = askedAt + SLOT_MS;
    return true;
  }

  async giveBack(slot) {
    try {
      await this.redis.zrem(this.key, slot.member); // the member is a uuid of ours, nobody else's
    } catch (err) {
      this.log.warn(`slot ${slot.member} not given back, runs out by itself: ${err.message}`);
    }
  }

  async takeWithin(waitMs) {
    const end = Date.now() + waitMs;
    for (;;) {
      const slot = await this.take();
      if (slot) return slot;
      if (Date.now() >= end) return null;
      await new Promise((r) => setTimeout(r, 500 + Math.random() * 1000));
    }
  }
}

/** Runs one scene; resolves to the exit code, or 'no-slot' or 'slot-lost'. */
async function renderScene(slots, scene, { bin = process.env.RENDER_BIN || 'blender', waitMs = 60000 } = {}) {
  const slot = await slots.takeWithin(waitMs);
  if (!slot) {
    if (slots.metrics) slots.metrics.increment('render.no_slot');
    return 'no-slot';
  }

  let timer;
  try {
    if (performance.now() > slot.goodUntil - KILL_MARGIN_MS) return 'slot-lost'; // a very slow answer

    const args = ['--pdeathsig', 'KILL', bin, '-b', scene.file, '-f', String(scene.frame)];
    const child = spawn('setpriv', args, { stdio: 'ignore' });
    let lost = false;
    const kill = (why) => {
      if (lost) return;
      lost = true;
      slots.log.error(`scene ${scene.id}: ${why}, killing the renderer`);
      child.kill('SIGKILL');
    };

    let asking = false;
    timer = setInterval(() => {
      if (performance.now() > slot.goodUntil - KILL_MARGIN_MS) {
        kill('slot not kept in time');
        return;
      }
      if (asking) return;
      asking = true;
      slots
        .keep(slot)
        .then(
          (kept) => {
            if (!kept) kill('slot lost');
          },
          (err) => slots.log.warn(`scene ${scene.id}: heartbeat failed: ${err.message}`),
        )
        .finally(() => {
          asking = false;
        });
    }, HEARTBEAT_MS);

    const code = await new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', resolve);
    });
    return lost ? 'slot-lost' : code;
  } finally {
    clearInterval(timer);
    await slots.giveBack(slot); // only now: the license counts as used while the process lives
  }
}

module.exports = { RenderSlots, renderScene };
