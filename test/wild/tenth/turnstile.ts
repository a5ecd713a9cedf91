import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/**
 * Turnstile - a lock over several independent Redis servers.
 *
 * A pass is good while `isValid()` says so. Check it before every write that
 * must not happen twice; it is computed from the moment we *asked*, so slow
 * answers only make it shorter.
 */
const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

// only ever lengthens, so a half-done extension can't hurt what we already have
const PROLONG = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call("pttl", KEYS[1]) < tonumber(ARGV[2]) then
  redis.call("pexpire", KEYS[1], ARGV[2])
end
return 1`;

export interface TurnstileOptions {
  retries?: number;
  retryDelayMs?: number;
  nodeTimeoutMs?: number;
}

const usable = (ttlMs: number) => ttlMs - (ttlMs * 0.01 + 2);

export class Turnstile {
  readonly nodes: Redis[];
  readonly quorum: number;
  readonly #opts: Required<TurnstileOptions>;

  constructor(nodes: Redis[], opts: TurnstileOptions = {}) {
    if (nodes.length === 0) throw new TypeError('Turnstile needs at least one node');
    this.nodes = nodes;
    this.quorum = Math.floor(nodes.length / 2) + 1;
    this.#opts = { retries: 10, retryDelayMs: 100, nodeTimeoutMs: 200, ...opts };
  }

  async acquire(resource: string, ttlMs: number): Promise<Pass> {
    if (!Number.isInteger(ttlMs) || ttlMs <= 0) throw new RangeError('ttlMs must be a positive integer');
    const key = `turnstile:${resource}`;
    for (let attempt = 0; ; attempt++) {
      const token = randomBytes(16).toString('hex');
      const asked = performance.now();
      const replies = await this.askAll(ttlMs / 3, (r) => r.set(key, token, 'PX', ttlMs, 'NX'));
      const until = asked + usable(ttlMs);
      if (replies.filter((r) => r === 'OK').length >= this.quorum && performance.now() < until) {
        return new Pass(this, key, token, until);
      }
      // everywhere, also where we got no answer: the SET may still arrive there
      await this.askAll(ttlMs / 3, (r) => r.eval(UNLOCK, 1, key, token));
      if (attempt >= this.#opts.retries) throw new Error(`turnstile: "${resource}" is taken`);
      await sleep(this.#opts.retryDelayMs * (0.5 + Math.random()));
    }
  }

  /** one answer per node, undefined for an error or none in time */
  askAll(limitMs: number, send: (node: Redis) => Promise<unknown>): Promise<unknown[]> {
    const wait = Math.min(limitMs, this.#opts.nodeTimeoutMs);
    return Promise.all(
      this.nodes.map(async (node) => {
        let timer: NodeJS.Timeout | undefined;
        const late = new Promise<undefined>((resolve) => {
          timer = setTimeout(resolve, wait, undefined);
        });
        try {
          return await Promise.race([send(node), late]);
        } catch {
          return undefined;
        } finally {
          clearTimeout(timer);
        }
      }),
    );
  }
}

export class Pass {
  #lock: Turnstile;
  #key: string;
  #token: string;
  #until: number;
  #open = true;

  constructor(lock: Turnstile, key: string, token: string, until: number) {
    this.#lock = lock;
    this.#key = key;
    this.#token = token;
    this.#until = until;
  }

  isValid(): boolean {
    return this.#open && performance.now() < this.#until;
  }

  async extend(ttlMs: number): Promise<void> {
    if (!this.isValid()) throw new Error('turnstile: pass has run out');
    const asked = performance.now();
    const replies = await this.#lock.askAll(ttlMs / 3, (r) => r.eval(PROLONG, 1, this.#key, this.#token, ttlMs));
    if (replies.filter((r) => r === 1).length < this.#lock.quorum) throw new Error('turnstile: could not extend');
    this.#until = Math.max(this.#until, asked + usable(ttlMs));
    if (!this.isValid()) throw new Error('turnstile: extended too late');
  }

  async release(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    await this.#lock.askAll(1000, (r) => r.eval(UNLOCK, 1, this.#key, this.#token));
  }
}

export const make = ({ nodes }: { nodes: Redis[] }) => new Turnstile(nodes);
