import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Re-entrant lock, one Redis. Whoever has a hold may pass it down and callees
 * take a hold of their own with `hold.enter()`; the lock is free when the last
 * hold is gone. The holds are the fields of a hash, so doing any of these twice
 * (a resend after a reconnect) comes to the same.
 */
const FIRST = `
if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return 1`;

const AGAIN = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('hset', KEYS[1], ARGV[2], 1)
return 1`;

// an emptied hash goes away by itself
const LEAVE = `return redis.call('hdel', KEYS[1], ARGV[1])`;

const STAY = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1`;

interface Tree {
  key: string;
  until: number;
}

export class Hold {
  #nest: Nest;
  #tree: Tree;
  #id: string;
  #gone = false;

  constructor(nest: Nest, tree: Tree, id: string) {
    this.#nest = nest;
    this.#tree = tree;
    this.#id = id;
  }

  isValid() {
    return !this.#gone && performance.now() < this.#tree.until;
  }

  remaining() {
    return this.#gone ? 0 : Math.max(0, this.#tree.until - performance.now());
  }

  /** a second hold on the same lock, for as long as the first was good for */
  async enter(): Promise<Hold> {
    if (!this.isValid()) throw new Error('nest: the outer hold is over');
    const id = randomUUID();
    try {
      const ok = await this.#nest.call(AGAIN, this.#tree.key, this.#id, id);
      if (ok !== 1 || performance.now() >= this.#tree.until) throw new Error('nest: the outer hold is over');
      return new Hold(this.#nest, this.#tree, id);
    } catch (err) {
      this.#nest.forget(this.#tree.key, id);
      throw err;
    }
  }

  async extend(ttlMs: number): Promise<void> {
    if (!this.isValid()) throw new Error('nest: the hold is over');
    const from = performance.now();
    const ok = await this.#nest.call(STAY, this.#tree.key, this.#id, ttlMs);
    if (ok !== 1) throw new Error('nest: the hold is over');
    this.#tree.until = Math.max(this.#tree.until, from + ttlMs * 0.99 - 2);
    if (!this.isValid()) throw new Error('nest: the hold is over');
  }

  async release(): Promise<void> {
    if (this.#gone) return;
    this.#gone = true;
    await this.#nest.call(LEAVE, this.#tree.key, this.#id);
  }
}

export class Nest {
  #redis: Redis;
  constructor(redis: Redis) {
    this.#redis = redis;
  }

  async acquire(resource: string, ttlMs: number): Promise<Hold | null> {
    if (!Number.isInteger(ttlMs) || ttlMs <= 0) throw new RangeError('nest: bad ttl');
    const key = `nest:${resource}`;
    const id = randomUUID();
    const until = performance.now() + ttlMs * 0.99 - 2;
    try {
      if ((await this.call(FIRST, key, id, ttlMs)) !== 1) return null;
    } catch (err) {
      this.forget(key, id);
      throw err;
    }
    if (performance.now() < until) return new Hold(this, { key, until }, id);
    this.forget(key, id);
    return null;
  }

  call(script: string, key: string, ...args: (string | number)[]): Promise<unknown> {
    let t: NodeJS.Timeout;
    const late = new Promise((_, reject) => {
      t = setTimeout(() => reject(new Error('nest: redis does not answer')), 2000);
    });
    return Promise.race([this.#redis.eval(script, 1, key, ...args), late]).finally(() => clearTimeout(t));
  }

  forget(key: string, id: string) {
    this.#redis.eval(LEAVE, 1, key, id).catch(() => {});
  }
}

export const make = ({ nodes }: { nodes: Redis[] }) => new Nest(nodes[0]);
