import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

// A semaphore is a sorted set of its holders, by the end of their permits.

const ENTER = `
local now, permitEnd, ttl, limit = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
if redis.call('zcard', KEYS[1]) >= limit then return 0 end
redis.call('zadd', KEYS[1], permitEnd, ARGV[1])
if redis.call('pttl', KEYS[1]) < ttl then redis.call('pexpire', KEYS[1], ttl) end
return 1`;

const LEAVE = `return redis.call('zrem', KEYS[1], ARGV[1])`;

const STAY = `
local permitEnd = redis.call('zscore', KEYS[1], ARGV[1])
if not permitEnd then return 0 end
local ttl = tonumber(ARGV[3])
if tonumber(permitEnd) < tonumber(ARGV[2]) then redis.call('zadd', KEYS[1], ARGV[2], ARGV[1]) end
if redis.call('pttl', KEYS[1]) < ttl then redis.call('pexpire', KEYS[1], ttl) end
return 1`;

class Semaphore {
  readonly #nodes: readonly Redis[];
  readonly #limit: number;

  constructor(nodes: readonly Redis[], limit: number) {
    this.#nodes = nodes;
    this.#limit = limit;
  }

  async acquire(name: string, ttlMs: number): Promise<Permit | null> {
    for (let attempt = 0; attempt < 30; attempt += 1) {
      const permit = new Permit(this, `semaphore:${name}`, Date.now(), ttlMs);
      const args = [permit.startedAt, permit.startedAt + ttlMs, ttlMs, this.#limit];
      if ((await this.run(ENTER, permit, args)) && permit.remaining() > 0) return permit;
      await permit.release();
      await new Promise((resolve) => setTimeout(resolve, 60 + Math.random() * 140));
    }
    return null;
  }

  /** Whether a script returned 1 on a majority of the nodes. */
  async run(script: string, permit: Permit, args: number[] = []): Promise<boolean> {
    const votes = await Promise.all(
      this.#nodes.map((node) => this.#vote(node.eval(script, 1, permit.key, permit.id, ...args))),
    );
    return votes.reduce<number>((sum, vote) => sum + vote, 0) > this.#nodes.length / 2;
  }

  async #vote(answer: Promise<unknown>): Promise<0 | 1> {
    let timer: NodeJS.Timeout | undefined;
    const silence = new Promise<null>((resolve) => {
      timer = setTimeout(resolve, 450, null);
    });
    try {
      return (await Promise.race([answer, silence])) === 1 ? 1 : 0;
    } catch {
      return 0;
    } finally {
      clearTimeout(timer);
    }
  }
}

class Permit {
  readonly key: string;
  readonly id = randomUUID();
  readonly startedAt: number;
  readonly #semaphore: Semaphore;
  #end: number;

  constructor(semaphore: Semaphore, key: string, startedAt: number, ttlMs: number) {
    this.#semaphore = semaphore;
    this.key = key;
    this.startedAt = startedAt;
    this.#end = Permit.#trusted(startedAt, ttlMs);
  }

  static #trusted(from: number, ttlMs: number): number {
    return from + ttlMs - Math.ceil(ttlMs * 0.01) - 2;
  }

  remaining(): number {
    return Math.max(0, this.#end - Date.now());
  }

  async extend(ttlMs: number): Promise<boolean> {
    const from = Date.now();
    if (from >= this.#end) return false;
    const extended = await this.#semaphore.run(STAY, this, [from + ttlMs, ttlMs]);
    if (!extended || this.remaining() === 0) return false;
    this.#end = Math.max(this.#end, Permit.#trusted(from, ttlMs));
    return true;
  }

  async release(): Promise<boolean> {
    this.#end = 0;
    return this.#semaphore.run(LEAVE, this);
  }
}

export const make: MakeLock = ({ nodes }) => new Semaphore(nodes, 1);
