import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const SCRIPTS = {
  release: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`,
  extend: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`,
};

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

export interface Lock {
  resource: string;
  /** Readable on purpose: `redis-cli get` says which process has the lock. */
  owner: string;
  ttlMs: number;
  until: number;
  released: boolean;
  remaining(): number;
}

export class LockManager {
  private sequence = 0;

  constructor(private readonly nodes: Redis[]) {}

  async acquire(resource: string, ttlMs: number): Promise<Lock | null> {
    const latest = performance.now() + 3 * ttlMs;
    while (performance.now() < latest) {
      const lock: Lock = {
        resource,
        owner: this.nextOwner(),
        ttlMs,
        until: 0,
        released: false,
        remaining() {
          return this.released ? 0 : this.until - performance.now();
        },
      };
      const start = performance.now();
      const votes = await this.count(ttlMs / 4, async (node) => {
        const ok = (await node.set(resource, lock.owner, 'PX', ttlMs, 'NX')) === 'OK';
        if (ok && lock.released) this.free(node, lock);
        return ok;
      });
      lock.until = start + ttlMs - Math.ceil(ttlMs / 100) - 2;
      if (votes >= this.quorum && lock.remaining() > 0) return lock;
      await this.release(lock);
      await sleep(ttlMs * (0.02 + Math.random() * 0.1));
    }
    return null;
  }

  async extend(lock: Lock, ttlMs: number): Promise<Lock | null> {
    if (lock.remaining() <= 0) return null;
    const start = performance.now();
    const votes = await this.count(
      ttlMs / 4,
      async (node) => (await node.eval(SCRIPTS.extend, 1, lock.resource, lock.owner, ttlMs)) === 1,
    );
    if (votes < this.quorum || lock.remaining() <= 0) return null;
    lock.until = start + ttlMs - Math.ceil(ttlMs / 100) - 2;
    return lock;
  }

  async release(lock: Lock): Promise<void> {
    lock.released = true;
    const told = new Set<Redis>();
    await this.count(lock.ttlMs / 6, async (node) => {
      await node.eval(SCRIPTS.release, 1, lock.resource, lock.owner);
      told.add(node);
      return true;
    });
    for (const node of this.nodes) if (!told.has(node)) this.free(node, lock);
  }

  private free(node: Redis, lock: Lock): void {
    node.eval(SCRIPTS.release, 1, lock.resource, lock.owner).catch(() => {});
  }

  /** Different for each attempt, so that a late command of one attempt cannot touch the next. */
  private nextOwner(): string {
    this.sequence += 1;
    return `${hostname()}:${process.pid}:${this.sequence}`;
  }

  private get quorum(): number {
    return Math.floor(this.nodes.length / 2) + 1;
  }

  private async count(ms: number, ask: (node: Redis) => Promise<boolean>): Promise<number> {
    const votes = await Promise.all(
      this.nodes.map(
        (node) =>
          new Promise<boolean>((resolve) => {
            const timer = setTimeout(resolve, ms, false);
            ask(node)
              .then(resolve, () => resolve(false))
              .finally(() => clearTimeout(timer));
          }),
      ),
    );
    return votes.filter((vote) => vote).length;
  }
}

export const make: MakeLock = ({ nodes }) => {
  const manager = new LockManager(nodes);
  return {
    acquire: (resource, ttlMs) => manager.acquire(resource, ttlMs),
    release: (held) => manager.release(held as Lock),
    extend: (held, ttlMs) => manager.extend(held as Lock, ttlMs),
  };
};
