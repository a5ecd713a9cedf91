'use strict';
const { EventEmitter } = require('node:events');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const metrics = require('./metrics');

const CAMPAIGN = `
local cur = redis.call('GET', KEYS[1])
if cur == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if cur then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

/** Emits 'elected' and 'deposed'. Ask isLeader before every dome command. */
class DomeLeader extends EventEmitter {
  #until = 0;
  #leader = false;
  #timer = null;
  #run = null;

  constructor(redis, { site, ttlMs = 9000, marginMs = 1000 }) {
    super();
    this.redis = redis;
    this.key = `observatory:${site}:dome:leader`;
    this.id = randomUUID();
    this.ttlMs = ttlMs;
    this.marginMs = marginMs;
  }

  get isLeader() {
    return this.#leader && performance.now() < this.#until;
  }

  start() {
    if (this.#run) return;
    this.#run = new AbortController();
    this.#loop(this.#run.signal);
  }

  async stop() {
    this.#run?.abort();
    this.#run = null;
    this.#depose('stopped');
    await this.redis.eval(RESIGN, 1, this.key, this.id).catch(() => {});
  }

  async #loop(signal) {
    while (!signal.aborted) {
      const sentAt = performance.now();
      try {
        const won = await this.redis.eval(CAMPAIGN, 1, this.key, this.id, this.ttlMs);
        if (signal.aborted) return;
        if (won === 1) this.#hold(sentAt + this.ttlMs - this.marginMs);
        else this.#depose('outvoted');
      } catch (err) {
        metrics.increment('dome_leader.redis_error', { code: err.code ?? 'unknown' });
      }
      await sleep(this.ttlMs / 3, null, { signal }).catch(() => {});
    }
  }

  #hold(until) {
    const left = until - performance.now();
    if (left <= 0) return;
    this.#until = until;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#depose('lease ran out'), left);
    if (this.#leader) return;
    this.#leader = true;
    metrics.gauge('dome_leader.is_leader', 1);
    this.emit('elected');
  }

  #depose(reason) {
    clearTimeout(this.#timer);
    this.#until = 0;
    if (!this.#leader) return;
    this.#leader = false;
    metrics.gauge('dome_leader.is_leader', 0);
    this.emit('deposed', reason);
  }
}

module.exports = { DomeLeader };
