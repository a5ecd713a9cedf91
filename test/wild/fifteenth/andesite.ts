import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const GIVE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const STRETCH = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1`;

const NODE_LIMIT_MS = 300;
const ROUNDS = 3;

const nap = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
const safeEnd = (start: number, ttlMs: number) => start + ttlMs - Math.ceil(ttlMs * 0.01) - 2;

function succeeds(request: Promise<unknown>, success: unknown): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), NODE_LIMIT_MS);
    request.then(
      (reply) => {
        clearTimeout(timer);
        resolve(reply === success);
      },
      () => {
        clearTimeout(timer);
        resolve(false);
      },
    );
  });
}

class DistributedLock {
  readonly #nodes: readonly Redis[];
  readonly #key: string;
  readonly #token: string;
  #deadline = 0;

  private constructor(nodes: readonly Redis[], key: string) {
    this.#nodes = nodes;
    this.#key = key;
    this.#token = randomUUID();
  }

  static async take(nodes: readonly Redis[], key: string, ttlMs: number): Promise<DistributedLock | null> {
    const lock = new DistributedLock(nodes, key);
    lock.#deadline = safeEnd(Date.now(), ttlMs);
    const votes = await lock.#ask('OK', (node) => node.set(key, lock.#token, 'PX', ttlMs, 'NX'));
    if (votes >= lock.#majority && lock.remaining() > 0) return lock;
    await lock.release();
    return null;
  }

  get #majority(): number {
    return Math.floor(this.#nodes.length / 2) + 1;
  }

  async #ask(success: unknown, request: (node: Redis) => Promise<unknown>): Promise<number> {
    const votes = await Promise.all(this.#nodes.map((node) => succeeds(request(node), success)));
    return votes.filter((vote) => vote).length;
  }

  remaining(): number {
    return Math.max(0, this.#deadline - Date.now());
  }

  /** A message may get lost, which is no reason to give up the lock at once: there are some rounds. */
  async extend(ttlMs: number): Promise<boolean> {
    const start = Date.now();
    let votes = 0;
    for (let round = 0; round < ROUNDS && votes < this.#majority; round += 1) {
      if (round > 0) await nap(50 + Math.random() * 50);
      if (this.remaining() === 0) return false;
      votes += await this.#ask(1, (node) => node.eval(STRETCH, 1, this.#key, this.#token, ttlMs));
    }
    if (this.remaining() === 0) {
      await this.release();
      return false;
    }
    if (votes < this.#majority) return false;
    this.#deadline = Math.max(this.#deadline, safeEnd(start, ttlMs));
    return true;
  }

  async release(): Promise<void> {
    this.#deadline = 0;
    await this.#ask(1, (node) => node.eval(GIVE, 1, this.#key, this.#token));
  }
}

export const make: MakeLock = ({ nodes }) => ({
  async acquire(resource, ttlMs) {
    for (let attempt = 0; attempt < 30; attempt += 1) {
      const lock = await DistributedLock.take(nodes, `dl:${resource}`, ttlMs);
      if (lock !== null) return lock;
      await nap(60 + Math.random() * 120);
    }
    return null;
  },
});
