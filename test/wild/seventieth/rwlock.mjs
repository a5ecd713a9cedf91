/**
 * Read-write lock for node-redis.
 *
 *   {name}:w  token of the writer
 *   {name}:r  sorted set of reader tokens, scored by the time they run out
 *   {name}:p  a writer is waiting, newcomers among the readers stand back
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const head = `
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
local ttl = tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
`;

const admit = `
redis.call('ZADD', KEYS[2], string.format('%.0f', now + ttl), ARGV[1])
if redis.call('PTTL', KEYS[2]) < ttl then redis.call('PEXPIRE', KEYS[2], ttl) end
return 1
`;

const scripts = {
  read: {
    take: `${head}
      if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
      if redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
      ${admit}`,
    keep: `${head}
      if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
      ${admit}`,
    drop: `return redis.call('ZREM', KEYS[2], ARGV[1])`,
  },
  write: {
    take: `${head}
      if redis.call('ZCARD', KEYS[2]) == 0 and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ttl) then
        redis.call('DEL', KEYS[3])
        return 1
      end
      redis.call('SET', KEYS[3], ARGV[1], 'PX', 1000)
      return 0`,
    keep: `
      if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
      return 0`,
    drop: `
      if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
      return 0`,
  },
};

export class RWLock {
  constructor(client, name, { ttl = 10_000, wait = 10_000 } = {}) {
    this.client = client;
    this.keys = [`{${name}}:w`, `{${name}}:r`, `{${name}}:p`];
    this.ttl = ttl;
    this.wait = wait;
  }

  read(fn) {
    return this.#hold(scripts.read, fn);
  }

  write(fn) {
    return this.#hold(scripts.write, fn);
  }

  async #call(script, token) {
    const r = await this.client.eval(script, {
      keys: this.keys,
      arguments: [token, String(this.ttl)],
    });
    return Number(r) === 1;
  }

  // fn(guard): call guard() before every step with an effect; it throws once the lease is in doubt.
  async #hold(ops, fn) {
    const token = randomUUID();
    const usable = this.ttl * 0.8;
    let until = 0;
    let over = false;
    let timer;

    const guard = () => {
      if (over || performance.now() >= until) throw new Error(`lease on ${this.keys[0]} is gone`);
    };

    const renew = async () => {
      const at = performance.now();
      try {
        const ok = await this.#call(ops.keep, token);
        if (!ok) over = true;
        else if (performance.now() < until) until = at + usable;
      } catch (err) {
        console.warn('rwlock renew:', err.message);
      }
      if (!over) timer = setTimeout(renew, this.ttl / 4);
    };

    try {
      const giveUp = performance.now() + this.wait;
      for (;;) {
        const at = performance.now();
        if (await this.#call(ops.take, token)) {
          until = at + usable;
          break;
        }
        if (performance.now() > giveUp) throw new Error(`timed out on ${this.keys[0]}`);
        await sleep(30 + Math.random() * 70);
      }
      timer = setTimeout(renew, this.ttl / 4);
      guard();
      const result = await fn(guard);
      guard();
      return result;
    } finally {
      over = true;
      clearTimeout(timer);
      await this.#call(ops.drop, token).catch((err) => console.warn('rwlock release:', err.message));
    }
  }
}
