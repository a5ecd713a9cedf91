const { EventEmitter } = require('node:events');
const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const RENEW_OR_TAKE = `
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
elseif not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const STEP_DOWN = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

/**
 * const primary = new Primary('scheduler');
 * primary.on('promoted', () => scheduler.start());
 * primary.on('demoted', () => scheduler.stop());
 * primary.start();
 */
class Primary extends EventEmitter {
  constructor(group, { ttl = 10000, redis } = {}) {
    super();
    this.key = `primary:${group}`;
    this.ttl = ttl;
    this.id = randomUUID();
    this.active = false;
    this.timer = null;
    this.redis =
      redis ||
      new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379', {
        maxRetriesPerRequest: 1,
        commandTimeout: 2000,
      });
    this.redis.on('error', () => {});
  }

  start() {
    if (this.timer) return;
    this.stopped = false;
    this.timer = setTimeout(() => this.tick(), 0);
  }

  async tick() {
    try {
      const mine = await this.redis.eval(RENEW_OR_TAKE, 1, this.key, this.id, this.ttl);
      if (!this.stopped) this.become(mine === 1);
    } catch (err) {
      // Redis hiccup, we will know more on the next round
      this.emit('warn', err);
    }
    if (!this.stopped) {
      this.timer = setTimeout(() => this.tick(), this.ttl / 4);
    }
  }

  become(active) {
    if (active === this.active) return;
    this.active = active;
    this.emit(active ? 'promoted' : 'demoted');
  }

  async stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    this.timer = null;
    this.become(false);
    try {
      await this.redis.eval(STEP_DOWN, 1, this.key, this.id);
    } catch (err) {
      this.emit('warn', err);
    }
  }
}

module.exports = { Primary };
