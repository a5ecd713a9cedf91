'use strict';

const { randomUUID } = require('node:crypto');
const { EventEmitter } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const os = require('node:os');
const Redis = require('ioredis');

const CAMPAIGN = `
local holder = redis.call('get', KEYS[1])
if holder == ARGV[1] then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 1
end
if not holder then
  redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 1
end
return 0`;

const RESIGN = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

/**
 * Picks one instance of a deployment to run housekeeping.
 *
 *   const leader = new Leader({ name: 'housekeeping', url: process.env.REDIS_URL, step });
 *   leader.start();
 *   process.once('SIGTERM', () => leader.stop());
 *
 * `step(stillLeader)` must be short and safe to run twice: it deletes expired sessions,
 * trims logs and the like. Longer steps poll stillLeader() between batches.
 */
class Leader extends EventEmitter {
  constructor({ name, url, step, ttl = 15000, beat = 4000, stepEvery = 30000 }) {
    super();
    this.key = `leader:${name}`;
    this.id = `${os.hostname()}/${process.pid}/${randomUUID()}`;
    this.ttl = ttl;
    this.beat = beat;
    this.stepEvery = stepEvery;
    this.step = step;
    this.until = 0;
    this.announced = false;
    this.stopping = new AbortController();
    this.redis = new Redis(url, { commandTimeout: 3000, maxRetriesPerRequest: 1 });
    this.redis.on('error', (err) => this.emit('warn', err));
  }

  isLeader() {
    return performance.now() < this.until;
  }

  start() {
    this.loops = Promise.all([this.campaignLoop(), this.stepLoop()]);
  }

  async pause(ms) {
    await sleep(ms, undefined, { signal: this.stopping.signal }).catch(() => {});
  }

  async campaignLoop() {
    while (!this.stopping.signal.aborted) {
      const asked = performance.now();
      try {
        const won = await this.redis.eval(CAMPAIGN, 1, this.key, this.id, this.ttl);
        // a quarter of the ttl is kept back for clocks that do not run quite alike
        this.until = won === 1 ? asked + this.ttl * 0.75 : 0;
      } catch (err) {
        this.emit('warn', err);
      }
      const now = this.isLeader();
      if (now !== this.announced) {
        this.announced = now;
        this.emit(now ? 'elected' : 'deposed');
      }
      await this.pause(this.beat + Math.random() * 500);
    }
  }

  async stepLoop() {
    while (!this.stopping.signal.aborted) {
      if (this.isLeader()) {
        try {
          await this.step(() => this.isLeader() && !this.stopping.signal.aborted);
        } catch (err) {
          this.emit('warn', err);
        }
        await this.pause(this.stepEvery);
      } else {
        await this.pause(1000);
      }
    }
  }

  async stop() {
    this.stopping.abort();
    await this.loops;
    this.until = 0;
    try {
      await this.redis.eval(RESIGN, 1, this.key, this.id);
    } catch (err) {
      this.emit('warn', err);
    }
    this.redis.disconnect();
  }
}

module.exports = { Leader };
