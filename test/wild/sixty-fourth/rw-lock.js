/**
 * Read-write lock on one Redis (node-redis v4 and v5).
 *
 * Readers: ZSET  rw:{name}:r   member = token, score = expiry (server time, ms)
 * Writer:  STRING rw:{name}:w  value  = token, with PX
 *
 * Many readers or one writer. Each holder has a lease of its own, which is
 * renewed while the callback runs; the callback's signal fires on loss.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ttl = tonumber(ARGV[2])
`;

// the whole set lives at least as long as its longest lease
const TOUCH = `
if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ttl) end
`;

const READ = {
  lock: `${NOW}
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
redis.call('ZADD', KEYS[1], now + ttl, ARGV[1])
${TOUCH}
return 1`,
  renew: `${NOW}
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score or tonumber(score) <= now then return 0 end
redis.call('ZADD', KEYS[1], now + ttl, ARGV[1])
${TOUCH}
return 1`,
  unlock: `return redis.call('ZREM', KEYS[1], ARGV[1])`,
};

const WRITE = {
  lock: `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ttl) then return 1 end
return 0`,
  renew: `
if redis.call('GET', KEYS[2]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
return 0`,
  unlock: `
if redis.call('GET', KEYS[2]) == ARGV[1] then return redis.call('DEL', KEYS[2]) end
return 0`,
};

export class ReadWriteLock {
  constructor(client, name, { ttl = 10_000, wait = 20_000 } = {}) {
    this.client = client;
    this.name = name;
    this.keys = [`rw:{${name}}:r`, `rw:{${name}}:w`];
    this.ttl = ttl;
    this.wait = wait;
  }

  read(fn) {
    return this.#hold(READ, fn);
  }

  write(fn) {
    return this.#hold(WRITE, fn);
  }

  #call(script, token) {
    return this.client.eval(script, { keys: this.keys, arguments: [token, String(this.ttl)] });
  }

  async #hold(mode, fn) {
    const token = randomUUID();
    const giveUp = performance.now() + this.wait;
    let sent = performance.now();
    while ((await this.#call(mode.lock, token)) !== 1) {
      if (performance.now() > giveUp) throw new Error(`rw-lock ${this.name}: timed out`);
      await sleep(40 + Math.random() * 80);
      sent = performance.now();
    }

    const lost = new AbortController();
    let deadline;
    const arm = (from) => {
      clearTimeout(deadline);
      const left = from + this.ttl * 0.85 - performance.now();
      if (left <= 0) return lost.abort(new Error(`rw-lock ${this.name}: lease ran out`));
      deadline = setTimeout(() => arm(-Infinity), left);
    };
    arm(sent);

    const end = new AbortController();
    const renewing = (async () => {
      while (!end.signal.aborted && !lost.signal.aborted) {
        await sleep(this.ttl / 4, undefined, { signal: end.signal }).catch(() => {});
        if (end.signal.aborted) return;
        const from = performance.now();
        const reply = await this.#call(mode.renew, token).catch(() => null);
        if (end.signal.aborted || lost.signal.aborted) return;
        if (reply === 1) arm(from);
        else if (reply === 0) lost.abort(new Error(`rw-lock ${this.name}: lost`));
        // null: no answer, the deadline decides
      }
    })();
    renewing.catch(() => {});

    try {
      lost.signal.throwIfAborted();
      const value = await fn(lost.signal);
      lost.signal.throwIfAborted(); // what was read or written without the lock is not a result
      return value;
    } finally {
      end.abort();
      clearTimeout(deadline);
      await this.#call(mode.unlock, token).catch(() => {});
    }
  }
}

// const catalog = new ReadWriteLock(client, 'catalog');
// const tree = await catalog.read((signal) => store.load('tree.json', { signal }));
// await catalog.write((signal) => store.replace('tree.json', rebuild(tree), { signal }));
