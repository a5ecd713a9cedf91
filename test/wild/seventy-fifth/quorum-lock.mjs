/**
 * quorum-lock
 *
 * The Redlock algorithm for three or more independent Redis primaries (no replicas of
 * each other!). Run the nodes with `appendonly yes` and `appendfsync always`, or keep a
 * crashed node down for longer than your longest ttl before it comes back.
 *
 *   const locks = new QuorumLock(['redis://a', 'redis://b', 'redis://c']);
 *   const lease = await locks.acquire('reindex', { ttl: 20_000 });
 *   try {
 *     for (const shard of shards) {
 *       if (lease.remaining() < 10_000) await lease.extend();
 *       await reindex(shard);          // < 10 s each
 *     }
 *   } finally {
 *     await lease.release();
 *   }
 *
 * What you get: two leases of one name never both have remaining() > 0, given that the
 * clocks of the nodes run at about the same speed. What you do when remaining() is 0 is
 * up to you.
 */
import { randomBytes } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;
const PROLONG = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) else return 0 end`;

export class NoQuorumError extends Error {
  name = 'NoQuorumError';
}

export class QuorumLock {
  #nodes;
  #quorum;

  constructor(urls, { nodeTimeout = 80, prefix = 'ql:' } = {}) {
    if (new Set(urls).size !== urls.length || urls.length < 3) {
      throw new TypeError('give me at least three different nodes');
    }
    this.prefix = prefix;
    this.#quorum = Math.floor(urls.length / 2) + 1;
    this.#nodes = urls.map((url) => {
      const node = new Redis(url, {
        commandTimeout: nodeTimeout, // a node that hangs must not eat up the lease
        enableOfflineQueue: false,
        autoResendUnfulfilledCommands: false,
        maxRetriesPerRequest: 0,
      });
      node.on('error', () => {}); // a node that is down is a vote that is missing
      return node;
    });
  }

  /** How many nodes said yes. Errors and timeouts are a no. */
  async #poll(ask, isYes) {
    const votes = await Promise.all(
      this.#nodes.map((node) => ask(node).then((reply) => isYes(reply), () => false)),
    );
    return votes.filter(Boolean).length;
  }

  async acquire(name, { ttl = 20_000, attempts = 10, delay = 200 } = {}) {
    const key = this.prefix + name;
    for (let i = 0; i < attempts; i++) {
      if (i > 0) await sleep(delay / 2 + Math.random() * delay);
      const token = randomBytes(20).toString('hex');
      const started = performance.now();
      const yes = await this.#poll(
        (node) => node.set(key, token, 'PX', ttl, 'NX'),
        (reply) => reply === 'OK',
      );
      const validUntil = started + ttl - this.#drift(ttl);
      if (yes >= this.#quorum && performance.now() < validUntil) {
        return new Lease(this, key, token, ttl, validUntil);
      }
      // also on nodes that did not answer: they may have done it all the same
      await this.unlock(key, token);
    }
    throw new NoQuorumError(`could not lock ${name}`);
  }

  /** @internal */
  async prolong(key, token, ttl) {
    const started = performance.now();
    const yes = await this.#poll(
      (node) => node.eval(PROLONG, 1, key, token, ttl),
      (reply) => reply === 1,
    );
    return yes >= this.#quorum ? started + ttl - this.#drift(ttl) : 0;
  }

  /** @internal */
  unlock(key, token) {
    return this.#poll((node) => node.eval(UNLOCK, 1, key, token), (reply) => reply === 1);
  }

  #drift(ttl) {
    return ttl * 0.01 + 2;
  }

  async close() {
    for (const node of this.#nodes) node.disconnect();
  }
}

class Lease {
  #locks; #key; #token; #ttl; #validUntil;

  constructor(locks, key, token, ttl, validUntil) {
    this.#locks = locks;
    this.#key = key;
    this.#token = token;
    this.#ttl = ttl;
    this.#validUntil = validUntil;
  }

  remaining() {
    return Math.max(0, this.#validUntil - performance.now());
  }

  async extend() {
    if (this.remaining() === 0) throw new NoQuorumError('the lease is over');
    const until = await this.#locks.prolong(this.#key, this.#token, this.#ttl);
    // without a quorum the old deadline stays in force
    if (until <= performance.now()) throw new NoQuorumError('could not extend the lease');
    this.#validUntil = until;
  }

  async release() {
    this.#validUntil = 0;
    await this.#locks.unlock(this.#key, this.#token);
  }
}
