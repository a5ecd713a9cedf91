import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const UNLOCK_LUA = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0`;

function timed(command: Promise<unknown>, ms: number): Promise<unknown> {
  let timer: NodeJS.Timeout;
  const expired = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  return Promise.race([command.catch(() => undefined), expired]).finally(() => clearTimeout(timer));
}

const validityOf = (ttl: number) => ttl - ttl * 0.01 - 2;

class Lock {
  private closed = false;
  private pending: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly locks: RedLocks,
    readonly resource: string,
    readonly token: string,
    private validUntil: number,
  ) {}

  isHeld(): boolean {
    return !this.closed && performance.now() < this.validUntil;
  }

  extend(ttl: number): Promise<this> {
    const result = this.pending.then(() => this.doExtend(ttl));
    this.pending = result.catch(() => {});
    return result;
  }

  private async doExtend(ttl: number): Promise<this> {
    if (this.closed) throw new Error('lock was released');
    const until = performance.now() + validityOf(ttl);
    this.validUntil = Math.min(this.validUntil, until);
    const votes = await this.locks.count(1, ttl / 4, (node) => node.pexpire(this.resource, ttl));
    if (votes < this.locks.quorum) throw new Error('lock could not be extended');
    this.validUntil = until;
    return this;
  }

  async release(): Promise<void> {
    this.closed = true;
    await this.locks.remove(this.resource, this.token);
  }
}

class RedLocks {
  readonly quorum: number;

  constructor(private readonly nodes: Redis[]) {
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async count(wanted: unknown, ms: number, send: (node: Redis) => Promise<unknown>): Promise<number> {
    const answers = await Promise.all(this.nodes.map((node) => timed(send(node), Math.max(20, ms))));
    return answers.filter((answer) => answer === wanted).length;
  }

  async remove(resource: string, token: string): Promise<void> {
    await this.count(1, 500, (node) => node.eval(UNLOCK_LUA, 1, resource, token));
  }

  async acquire(resource: string, ttl: number): Promise<Lock | null> {
    for (let i = 0; i < 5; i++) {
      const token = randomUUID();
      const until = performance.now() + validityOf(ttl);
      const votes = await this.count('OK', ttl / 4, (node) => node.set(resource, token, 'PX', ttl, 'NX'));
      if (votes >= this.quorum && performance.now() < until) return new Lock(this, resource, token, until);
      await this.remove(resource, token);
      await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 100));
    }
    return null;
  }
}

export const make: MakeLock = ({ nodes }) => new RedLocks(nodes);
