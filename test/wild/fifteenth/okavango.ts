import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

// A node that came back empty gets the key again.
const RENEW = `
local owner = redis.call('get', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const NODE_MS = 350;

async function agreed(answers: Promise<boolean>[]): Promise<boolean> {
  const votes = await Promise.all(
    answers.map((answer) => {
      let timer: NodeJS.Timeout | undefined;
      const slow = new Promise<boolean>((resolve) => {
        timer = setTimeout(resolve, NODE_MS, false);
      });
      return Promise.race([answer.catch(() => false), slow]).finally(() => clearTimeout(timer));
    }),
  );
  return votes.filter((vote) => vote).length > answers.length / 2;
}

/** Renews itself for as long as it is not released. */
class LiveLock {
  readonly #nodes: readonly Redis[];
  readonly #key: string;
  readonly #ttlMs: number;
  readonly #token = randomUUID();
  readonly #lost = new AbortController();
  #until = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(nodes: readonly Redis[], key: string, ttlMs: number) {
    this.#nodes = nodes;
    this.#key = key;
    this.#ttlMs = ttlMs;
  }

  get expiration(): number {
    return this.#until;
  }

  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  async start(): Promise<boolean> {
    this.#until = this.#end(Date.now());
    const taken = await agreed(
      this.#nodes.map(async (node) => (await node.set(this.#key, this.#token, 'PX', this.#ttlMs, 'NX')) === 'OK'),
    );
    if (!taken || Date.now() >= this.#until) {
      await this.release();
      return false;
    }
    this.#schedule(this.#ttlMs / 4);
    return true;
  }

  release(): Promise<boolean> {
    clearTimeout(this.#timer);
    this.#until = 0;
    return agreed(this.#nodes.map(async (node) => (await node.eval(RELEASE, 1, this.#key, this.#token)) === 1));
  }

  async #renew(): Promise<void> {
    const startedAt = Date.now();
    const due = this.#until;
    if (startedAt >= due) return this.#lose();
    const renewed = await agreed(
      this.#nodes.map(async (node) => (await node.eval(RENEW, 1, this.#key, this.#token, this.#ttlMs)) === 1),
    );
    if (Date.now() >= due) return this.#lose();
    if (renewed) this.#until = this.#end(startedAt);
    this.#schedule(renewed ? this.#ttlMs / 4 : this.#ttlMs / 16);
  }

  #schedule(ms: number): void {
    this.#timer = setTimeout(() => void this.#renew(), ms);
  }

  async #lose(): Promise<void> {
    this.#lost.abort(new Error(`${this.#key} was lost`));
    await this.release();
  }

  #end(from: number): number {
    return from + this.#ttlMs - Math.ceil(this.#ttlMs * 0.01) - 2;
  }
}

export const make: MakeLock = ({ nodes }) => ({
  async acquire(resource, ttlMs) {
    for (let attempt = 0; attempt < 40; attempt += 1) {
      const lock = new LiveLock(nodes, `live:${resource}`, ttlMs);
      if (await lock.start()) return lock;
      await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 150));
    }
    return null;
  },
});
