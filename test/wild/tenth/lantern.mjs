import { randomUUID } from 'node:crypto';

/**
 * lantern - "as long as it burns, you are alone".
 *
 * One Redis. acquire() gives a lantern that refuels itself every third of its
 * ttl until you release() it, at most `maxHoldMs`. If it can't be refuelled
 * `signal` aborts before the key runs out, and isValid() says no from that
 * moment, timers or not (it also aborts when you release). Long loops: `if (!lantern.isValid()) break`.
 */

const snuff = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
const refuel = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`;

const timed = async (ms, promise) => {
  let timer;
  try {
    return await Promise.race([
      promise,
      new Promise((_, no) => {
        timer = setTimeout(no, ms, new Error('redis timed out'));
      }),
    ]);
  } finally {
    clearTimeout(timer);
  }
};

class Lantern {
  #redis; #key; #token; #ttl; #until; #last; #refuelTimer; #darkTimer;
  #ctl = new AbortController();

  constructor(redis, key, token, ttl, until, last) {
    this.#redis = redis;
    this.#key = key;
    this.#token = token;
    this.#ttl = ttl;
    this.#until = until;
    this.#last = last;
    this.#arm();
    this.#later();
  }

  get signal() { return this.#ctl.signal; }
  remaining() { return this.signal.aborted ? 0 : Math.max(0, this.#until - performance.now()); }
  isValid() { return this.remaining() > 0; }

  #arm() {
    clearTimeout(this.#darkTimer);
    this.#darkTimer = setTimeout(() => this.#dark('ran out'), this.remaining());
  }

  #dark(why) {
    clearTimeout(this.#refuelTimer);
    clearTimeout(this.#darkTimer);
    this.#ctl.abort(new Error(`lantern ${this.#key}: ${why}`));
  }

  #later() {
    this.#refuelTimer = setTimeout(() => this.#refuel(), this.#ttl / 3);
    this.#refuelTimer.unref?.();
  }

  async #refuel() {
    if (!this.isValid()) return this.#dark('ran out');
    const from = performance.now();
    if (from >= this.#last) return; // long enough, let it burn down
    try {
      const ok = await timed(this.#ttl / 3, this.#redis.eval(refuel, 1, this.#key, this.#token, this.#ttl));
      if (!this.isValid()) return this.#dark('ran out');
      if (ok !== 1) return this.#dark('lost');
      this.#until = Math.max(this.#until, from + margin(this.#ttl));
      this.#arm();
    } catch {
      // next time perhaps; the dark timer is still set
    }
    if (this.isValid()) this.#later();
  }

  async release() {
    if (this.signal.aborted && this.#token === null) return false;
    const token = this.#token;
    this.#token = null;
    this.#dark('released');
    return (await timed(1000, this.#redis.eval(snuff, 1, this.#key, token))) === 1;
  }
}

const margin = (ttl) => ttl - Math.max(2, ttl / 100) - 2;

export class Lanterns {
  constructor(redis, { prefix = 'lantern:', maxHoldMs = 10 * 60_000 } = {}) {
    this.redis = redis;
    this.prefix = prefix;
    this.maxHoldMs = maxHoldMs;
  }

  /** a lantern, or null when it is taken */
  async acquire(resource, ttlMs) {
    const key = this.prefix + resource;
    const token = randomUUID();
    const from = performance.now();
    const away = () => this.redis.eval(snuff, 1, key, token).catch(() => {});
    let reply;
    try {
      reply = await timed(1000, this.redis.set(key, token, 'PX', ttlMs, 'NX'));
    } catch (err) {
      away();
      throw err;
    }
    if (reply !== 'OK') return null;
    if (performance.now() >= from + margin(ttlMs)) {
      away();
      return null;
    }
    return new Lantern(this.redis, key, token, ttlMs, from + margin(ttlMs), from + this.maxHoldMs);
  }
}

export const make = ({ nodes: [redis] }) => new Lanterns(redis);
