import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

async function isAnswer(wanted: unknown, command: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), ms);
  });
  const answer = await Promise.race([command.catch(() => null), late]);
  clearTimeout(timer);
  return answer === wanted;
}

class Nodes {
  readonly quorum: number;
  constructor(private readonly list: Redis[]) {
    this.quorum = Math.floor(list.length / 2) + 1;
  }
  async agree(wanted: unknown, ms: number, send: (node: Redis) => Promise<unknown>): Promise<boolean> {
    const votes = await Promise.all(this.list.map((node) => isAnswer(wanted, send(node), Math.max(20, ms))));
    return votes.filter(Boolean).length >= this.quorum;
  }
}

const span = (ttl: number) => ttl - ttl * 0.01 - 2;

class TidyLock {
  private sweeper: NodeJS.Timeout | undefined;
  private over = false;
  private busy = false;

  constructor(
    private readonly nodes: Nodes,
    private readonly key: string,
    private readonly token: string,
    private until: number,
  ) {
    this.arm();
  }

  /** If the owner forgets us, the keys go when the lock ends; slow nodes would keep them longer. */
  private arm(): void {
    this.sweeper = setTimeout(() => void this.sweep(), Math.max(0, this.until - performance.now()) + 1);
  }

  private async sweep(): Promise<void> {
    await this.nodes.agree(1, 300, (node) => node.eval(RELEASE, 1, this.key, this.token));
  }

  remaining(): number {
    return this.over ? 0 : Math.max(0, this.until - performance.now());
  }

  async extend(ttl: number): Promise<this> {
    if (this.busy || this.remaining() === 0) throw new Error(`cannot extend ${this.key} now`);
    this.busy = true;
    try {
      const until = performance.now() + span(ttl);
      this.until = Math.min(this.until, until);
      const agreed = await this.nodes.agree(1, ttl / 5, (node) => node.eval(EXTEND, 1, this.key, this.token, ttl));
      if (!agreed || this.over) throw new Error(`${this.key} was not extended`);
      this.until = until;
      this.arm();
      return this;
    } finally {
      this.busy = false;
    }
  }

  async release(): Promise<void> {
    this.over = true;
    clearTimeout(this.sweeper);
    await this.sweep();
  }
}

export const make: MakeLock = ({ nodes: list }) => {
  const nodes = new Nodes(list);
  return {
    async acquire(resource, ttl) {
      for (let i = 0; i < 5; i++) {
        const token = randomUUID();
        const until = performance.now() + span(ttl);
        const agreed = await nodes.agree('OK', ttl / 5, (node) => node.set(resource, token, 'PX', ttl, 'NX'));
        if (agreed && performance.now() < until) return new TidyLock(nodes, resource, token, until);
        await nodes.agree(1, ttl / 5, (node) => node.eval(RELEASE, 1, resource, token));
        await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 100));
      }
      return null;
    },
  };
};
