import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from 'lockstep/testing';

// KEYS: lock, counter. Takes the lock and tells the highest fence that this node knows.
const TAKE = `
if redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
  return tonumber(redis.call('get', KEYS[2]) or '0')
end
return -1`;

// Makes the fence known to this node, while the lock is ours here.
const FENCE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
local known = tonumber(redis.call('get', KEYS[2]) or '0')
if known < tonumber(ARGV[2]) then redis.call('set', KEYS[2], ARGV[2]) end
return 1`;

const GIVE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

const ask = <T>(command: Promise<T>, ms = 140): Promise<T | undefined> =>
  new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), ms);
    command.then(
      (reply) => {
        clearTimeout(timer);
        resolve(reply);
      },
      () => {
        clearTimeout(timer);
        resolve(undefined);
      },
    );
  });

class FencedLock {
  readonly fence: number;
  private readonly parent: FencedLocks;
  private readonly resource: string;
  private readonly token: string;
  private readonly end: number;

  constructor(parent: FencedLocks, resource: string, token: string, fence: number, end: number) {
    this.parent = parent;
    this.resource = resource;
    this.token = token;
    this.fence = fence;
    this.end = end;
  }

  isValid(): boolean {
    return performance.now() < this.end;
  }

  async release(): Promise<void> {
    await this.parent.give(this.resource, this.token);
  }
}

class FencedLocks {
  private readonly nodes: Redis[];
  private readonly quorum: number;

  constructor(nodes: Redis[]) {
    this.nodes = nodes;
    this.quorum = (nodes.length >> 1) + 1;
  }

  async acquire(resource: string, ttl: number): Promise<FencedLock | null> {
    for (let i = 0; i < 6; i++) {
      const token = randomUUID();
      const lock = await this.tryOnce(resource, token, ttl);
      if (lock !== null) return lock;
      await this.give(resource, token);
      await new Promise((r) => setTimeout(r, 70 + Math.random() * 130));
    }
    return null;
  }

  async give(resource: string, token: string): Promise<void> {
    await Promise.all(this.nodes.map((node) => ask(node.eval(GIVE, 1, resource, token))));
  }

  private async tryOnce(resource: string, token: string, ttl: number): Promise<FencedLock | null> {
    const start = performance.now();
    const end = start + ttl - ttl * 0.01 - 2;
    const counter = `${resource}:fence`;

    const known = await Promise.all(
      this.nodes.map((node) => ask(node.eval(TAKE, 2, resource, counter, token, ttl) as Promise<number>)),
    );
    const grants = known.filter((value): value is number => value !== undefined && value >= 0);
    if (grants.length < this.quorum || performance.now() >= end) return null;

    const fence = Math.max(...grants) + 1;
    const fenced = await Promise.all(
      this.nodes.map((node) => ask(node.eval(FENCE, 2, resource, counter, token, fence) as Promise<number>)),
    );
    if (fenced.filter((value) => value === 1).length < this.quorum || performance.now() >= end) return null;
    return new FencedLock(this, resource, token, fence, end);
  }
}

export const make: MakeLock = ({ nodes }) => new FencedLocks(nodes);
