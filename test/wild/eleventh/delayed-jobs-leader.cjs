'use strict';

const { EventEmitter } = require('node:events');
const { randomUUID } = require('node:crypto');
const os = require('node:os');
const Redis = require('ioredis');

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

// Moves due jobs to the ready list, as long as the caller is the leader.
const PROMOTE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return -1 end
local due = redis.call('zrangebyscore', KEYS[2], '-inf', ARGV[2], 'LIMIT', 0, 100)
for _, job in ipairs(due) do
  redis.call('zrem', KEYS[2], job)
  redis.call('lpush', KEYS[3], job)
end
return #due`;

/** Of all workers only the leader moves delayed jobs. Emits 'elected' and 'deposed'. */
class DelayedJobsLeader extends EventEmitter {
  constructor({ url = process.env.REDIS_URL || 'redis://127.0.0.1:6379', queue = 'default', ttl = 15000 } = {}) {
    super();
    this.redis = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 1 });
    this.redis.on('error', () => {}); // reported through the commands
    this.queue = queue;
    this.leaderKey = `{jobs:${queue}}:leader`;
    this.ttl = ttl;
    this.term = null;
    this.leaseEnd = 0;
    this.stopped = true;
  }

  get isLeader() {
    return this.term !== null && performance.now() < this.leaseEnd;
  }

  async start() {
    this.stopped = false;
    this.loop = this._loop();
  }

  async stop() {
    this.stopped = true;
    await this.loop;
    if (this.term) {
      await this.redis.eval(RESIGN, 1, this.leaderKey, this.term).catch(() => {});
      this._depose('stopped');
    }
    this.redis.disconnect();
  }

  async _loop() {
    while (!this.stopped) {
      try {
        await this._campaign();
        if (this.isLeader) await this._promote();
      } catch (err) {
        this.emit('warning', err);
      }
      if (this.term && !this.isLeader) this._depose('lease ran out');
      await new Promise((r) => setTimeout(r, this.ttl / 15));
    }
  }

  async _campaign() {
    const sentAt = performance.now();
    if (this.term) {
      const renewed = await this.redis.eval(RENEW, 1, this.leaderKey, this.term, this.ttl);
      if (renewed === 1) this.leaseEnd = sentAt + this.ttl * 0.9;
      else this._depose('somebody else leads');
      return;
    }
    const term = `${os.hostname()}/${randomUUID()}`;
    const reply = await this.redis.set(this.leaderKey, term, 'PX', this.ttl, 'NX');
    if (reply === 'OK') {
      this.term = term;
      this.leaseEnd = sentAt + this.ttl * 0.9;
      this.emit('elected', term);
    }
  }

  async _promote() {
    const moved = await this.redis.eval(
      PROMOTE, 3,
      this.leaderKey, `{jobs:${this.queue}}:delayed`, `{jobs:${this.queue}}:ready`,
      this.term, Date.now(),
    );
    if (moved === -1) this._depose('somebody else leads');
  }

  _depose(reason) {
    if (!this.term) return;
    this.term = null;
    this.leaseEnd = 0;
    this.emit('deposed', reason);
  }
}

module.exports = { DelayedJobsLeader };
