'use strict';

const { EventEmitter } = require('node:events');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
const RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";

/**
 * Leader election over one Redis key.
 *
 * `lead(signal)` runs while this process is the leader. It has to wind up
 * within `margin` ms once the signal fires; no new term starts here before it
 * has returned.
 *
 * Events: 'elected', 'deposed' (reason), 'ended', 'warn' (error)
 */
class LeaderElection extends EventEmitter {
  constructor(redis, key, lead, { ttl = 12000, margin = 3000 } = {}) {
    super();
    Object.assign(this, { redis, key, lead, ttl, margin });
    Object.assign(this, { term: null, stopping: false, timer: null });
  }

  start() {
    this.#tick();
  }

  /** Ends the term (if any), waits for the work and hands the key over. */
  async stop() {
    this.stopping = true;
    const term = this.term;
    if (term) {
      term.ac.abort(new Error('shutting down'));
      await term.work;
    }
    clearTimeout(this.timer);
  }

  async #tick() {
    try {
      if (this.term) {
        if (!this.term.over) await this.#renew(this.term);
      } else if (!this.stopping) {
        await this.#campaign();
      }
    } catch (err) {
      this.emit('warn', err);
    }
    if (this.stopping && !this.term) return;
    this.timer = setTimeout(() => this.#tick(), this.ttl / 4 + Math.random() * 250);
  }

  async #campaign() {
    const token = randomUUID();
    const sentAt = performance.now();
    let reply;
    try {
      reply = await this.redis.set(this.key, token, 'PX', this.ttl, 'NX');
    } catch (err) {
      await this.#release(token); // it may have arrived all the same
      throw err;
    }
    if (reply !== 'OK') return;
    if (this.stopping || performance.now() - sentAt > this.ttl / 2) return this.#release(token);

    const term = { token, ac: new AbortController(), over: false, deadline: null, work: null };
    this.term = term;
    this.#arm(term, sentAt);
    term.work = Promise.resolve()
      .then(() => this.lead(term.ac.signal))
      .catch((err) => term.ac.signal.aborted || this.emit('warn', err))
      .then(async () => {
        term.over = true;
        clearTimeout(term.deadline);
        await this.#release(token);
        this.term = null;
        this.emit('ended');
      });
    this.emit('elected');
  }

  async #renew(term) {
    const sentAt = performance.now();
    // An error ends up in 'warn'; the deadline is what decides.
    const ok = await this.redis.eval(RENEW, 1, this.key, term.token, this.ttl);
    if (term.over) return;
    if (ok === 1) this.#arm(term, sentAt);
    else this.#lose(term, new Error('another process holds the key'));
  }

  #arm(term, sentAt) {
    clearTimeout(term.deadline);
    const left = sentAt + this.ttl - this.margin - performance.now();
    term.deadline = setTimeout(() => this.#lose(term, new Error('could not renew in time')), Math.max(0, left));
  }

  #lose(term, reason) {
    if (term.over) return;
    term.over = true;
    clearTimeout(term.deadline);
    term.ac.abort(reason);
    this.emit('deposed', reason);
  }

  async #release(token) {
    await this.redis.eval(RELEASE, 1, this.key, token).catch((err) => this.emit('warn', err));
  }
}

module.exports = { LeaderElection };

if (require.main === module) {
  const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2000, maxRetriesPerRequest: 1 });
  redis.on('error', (err) => console.error('[redis]', err.message));

  const election = new LeaderElection(redis, 'leader:outbox-relay', async (signal) => {
    while (!signal.aborted) {
      await require('./outbox').relayBatch({ signal, timeoutMs: 2000 });
      await sleep(500, null, { signal }).catch(() => {});
    }
  });
  election.on('elected', () => console.log('now leading'));
  election.on('deposed', (reason) => console.log('stepped down: %s', reason.message));
  election.on('warn', (err) => console.warn(err.message));
  election.start();
  process.once('SIGTERM', () => election.stop().then(() => redis.quit()));
}
