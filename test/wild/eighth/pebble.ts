import { createHash, randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from 'lockstep/testing';

class Script {
  readonly source: string;
  readonly sha: string;

  constructor(source: string) {
    this.source = source;
    this.sha = createHash('sha1').update(source).digest('hex');
  }

  async run(node: Redis, key: string, ...args: (string | number)[]): Promise<unknown> {
    try {
      return await node.evalsha(this.sha, 1, key, ...args);
    } catch (error) {
      if (!(error instanceof Error) || !error.message.includes('NOSCRIPT')) throw error;
      return node.eval(this.source, 1, key, ...args);
    }
  }
}

const RELEASE = new Script(`
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0
`);
const EXTEND = new Script(`
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 1
`);

abstract class BaseLocker {
  protected readonly nodes: readonly Redis[];
  protected abstract readonly timeoutMs: number;

  constructor(nodes: readonly Redis[]) {
    this.nodes = nodes;
  }

  abstract tryAcquire(resource: string, ttl: number): Promise<BaseLock | null>;

  async acquire(resource: string, ttl: number): Promise<BaseLock | null> {
    for (let n = 0; n < 5; n++) {
      const lock = await this.tryAcquire(resource, ttl);
      if (lock) return lock;
      await this.pause();
    }
    return null;
  }

  protected pause(): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, 90 + Math.random() * 120));
  }

  async everywhere(command: (node: Redis) => Promise<unknown>): Promise<unknown[]> {
    return Promise.all(
      this.nodes.map(async (node) => {
        let timer: NodeJS.Timeout | undefined;
        const silence = new Promise<undefined>((resolve) => {
          timer = setTimeout(resolve, this.timeoutMs, undefined);
        });
        try {
          return await Promise.race([command(node), silence]);
        } catch {
          return undefined;
        } finally {
          clearTimeout(timer);
        }
      }),
    );
  }
}

abstract class BaseLock {
  protected end: number;

  constructor(end: number) {
    this.end = end;
  }

  remaining(): number {
    return Math.max(0, this.end - performance.now());
  }

  abstract release(): Promise<void>;
  abstract extend(ttl: number): Promise<boolean>;
}

class QuorumLocker extends BaseLocker {
  protected readonly timeoutMs = 160;

  get quorum(): number {
    return Math.floor(this.nodes.length / 2) + 1;
  }

  validity(ttl: number): number {
    return ttl - (ttl * 0.01 + 2);
  }

  async tryAcquire(resource: string, ttl: number): Promise<QuorumLock | null> {
    const value = randomUUID();
    const start = performance.now();
    const replies = await this.everywhere((node) => node.set(resource, value, 'PX', ttl, 'NX'));
    const end = start + this.validity(ttl);
    if (replies.filter((reply) => reply === 'OK').length >= this.quorum && performance.now() < end) {
      return new QuorumLock(this, resource, value, end);
    }
    await this.everywhere((node) => RELEASE.run(node, resource, value));
    return null;
  }
}

class QuorumLock extends BaseLock {
  private readonly locker: QuorumLocker;
  private readonly resource: string;
  private readonly value: string;

  constructor(locker: QuorumLocker, resource: string, value: string, end: number) {
    super(end);
    this.locker = locker;
    this.resource = resource;
    this.value = value;
  }

  async release(): Promise<void> {
    this.end = 0;
    await this.locker.everywhere((node) => RELEASE.run(node, this.resource, this.value));
  }

  async extend(ttl: number): Promise<boolean> {
    const start = performance.now();
    if (start >= this.end) return false;
    const replies = await this.locker.everywhere((node) => EXTEND.run(node, this.resource, this.value, ttl));
    if (performance.now() >= this.end) return false;
    if (replies.filter((reply) => reply === 1).length < this.locker.quorum) return false;
    this.end += this.locker.validity(ttl);
    return true;
  }
}

export const make: MakeLock = ({ nodes }) => new QuorumLocker(nodes);
