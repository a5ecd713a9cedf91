import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

interface Settings {
  readonly driftFactor: number;
  readonly retryCount: number;
  readonly retryDelay: number;
  readonly retryJitter: number;
}

const DEFAULTS: Settings = { driftFactor: 0.01, retryCount: 30, retryDelay: 100, retryJitter: 80 };

const UNLOCK = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`;
const RENEW = `
if redis.call("get",KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call("pttl",KEYS[1]) < tonumber(ARGV[2]) then redis.call("pexpire",KEYS[1],ARGV[2]) end
return 1`;

class Quorum {
  readonly #nodes: readonly Redis[];
  readonly #needed: number;

  constructor(nodes: readonly Redis[]) {
    this.#nodes = nodes;
    this.#needed = Math.floor(nodes.length / 2) + 1;
  }

  /** Asks all nodes at once; a node that errs or is late has not agreed. */
  async agrees(limitMs: number, ask: (node: Redis) => Promise<boolean>): Promise<boolean> {
    const votes = await Promise.all(this.#nodes.map((node) => this.#vote(limitMs, ask(node))));
    return votes.filter(Boolean).length >= this.#needed;
  }

  #vote(limitMs: number, answer: Promise<boolean>): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, limitMs, false);
      const settle = (vote: boolean) => {
        clearTimeout(timer);
        resolve(vote);
      };
      answer.then(settle, () => settle(false));
    });
  }
}

class Redlock {
  readonly #quorum: Quorum;
  readonly #settings: Settings;

  constructor(nodes: readonly Redis[], settings: Partial<Settings> = {}) {
    this.#quorum = new Quorum(nodes);
    this.#settings = { ...DEFAULTS, ...settings };
  }

  async acquire(resource: string, ttlMs: number): Promise<Lock | null> {
    const { retryCount, retryDelay, retryJitter } = this.#settings;
    for (let attempt = 0; attempt <= retryCount; attempt += 1) {
      const value = randomUUID();
      const lock = new Lock(this, resource, value, this.expiration(Date.now(), ttlMs));
      const agreed = await this.#quorum.agrees(this.limit(ttlMs), async (node) => {
        return (await node.set(resource, value, 'PX', ttlMs, 'NX')) === 'OK';
      });
      if (agreed && Date.now() < lock.expiration) return lock;
      await this.unlock(resource, value);
      await new Promise((resolve) => setTimeout(resolve, retryDelay + Math.random() * retryJitter));
    }
    return null;
  }

  unlock(resource: string, value: string): Promise<boolean> {
    return this.#quorum.agrees(500, async (node) => (await node.eval(UNLOCK, 1, resource, value)) === 1);
  }

  renew(resource: string, value: string, ttlMs: number): Promise<boolean> {
    return this.#quorum.agrees(this.limit(ttlMs), async (node) => {
      return (await node.eval(RENEW, 1, resource, value, ttlMs)) === 1;
    });
  }

  expiration(startedAt: number, ttlMs: number): number {
    return startedAt + ttlMs - (Math.ceil(this.#settings.driftFactor * ttlMs) + 2);
  }

  limit(ttlMs: number): number {
    return Math.min(500, Math.ceil(ttlMs / 5));
  }
}

class Lock {
  readonly #redlock: Redlock;
  readonly resource: string;
  readonly value: string;
  expiration: number;

  constructor(redlock: Redlock, resource: string, value: string, expiration: number) {
    this.#redlock = redlock;
    this.resource = resource;
    this.value = value;
    this.expiration = expiration;
  }

  async extend(ttlMs: number): Promise<this> {
    const startedAt = Date.now();
    if (startedAt >= this.expiration) throw new Error(`the lock on ${this.resource} has expired`);
    const agreed = await this.#redlock.renew(this.resource, this.value, ttlMs);
    if (Date.now() >= this.expiration) {
      await this.release();
      throw new Error(`the lock on ${this.resource} expired during its extension`);
    }
    if (!agreed) throw new Error(`too few nodes extended the lock on ${this.resource}`);
    this.expiration = Math.max(this.expiration, this.#redlock.expiration(startedAt, ttlMs));
    return this;
  }

  release(): Promise<boolean> {
    this.expiration = 0;
    return this.#redlock.unlock(this.resource, this.value);
  }
}

export const make: MakeLock = ({ nodes }) => new Redlock(nodes);
