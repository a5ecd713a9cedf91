import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const FREE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

async function settle(command: Promise<unknown>, ms: number): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  const answer = await Promise.race([command.catch(() => undefined), limit]);
  clearTimeout(timer);
  return answer;
}

class Cluster {
  readonly quorum: number;

  constructor(private readonly nodes: Redis[]) {
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async votes(wanted: unknown, ms: number, send: (node: Redis) => Promise<unknown>): Promise<number> {
    const answers = await Promise.all(this.nodes.map((node) => settle(send(node), ms)));
    return answers.filter((answer) => answer === wanted).length;
  }
}

/** A lock that renews itself until it is released. */
class AutoLock {
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly cluster: Cluster,
    private readonly key: string,
    private readonly token: string,
    private readonly ttl: number,
    private until: number,
  ) {
    this.arm();
  }

  isHeld(): boolean {
    return performance.now() < this.until;
  }

  private arm(): void {
    this.timer = setTimeout(() => void this.renew(), this.ttl / 3);
  }

  private async renew(): Promise<void> {
    if (!this.isHeld()) return;
    const began = performance.now();
    const votes = await this.cluster.votes(1, this.ttl / 5, (node) => node.eval(RENEW, 1, this.key, this.token, this.ttl));
    if (votes >= this.cluster.quorum) this.until = began + this.ttl * 0.99 - 2;
    if (this.isHeld()) this.arm();
  }

  async release(): Promise<void> {
    clearTimeout(this.timer);
    this.until = Number.NEGATIVE_INFINITY;
    await this.cluster.votes(1, this.ttl / 5, (node) => node.eval(FREE, 1, this.key, this.token));
  }
}

export const make: MakeLock = ({ nodes }) => {
  const cluster = new Cluster(nodes);

  return {
    async acquire(resource, ttl) {
      const ms = Math.max(20, ttl / 5);
      for (let attempt = 0; attempt < 5; attempt++) {
        const token = randomUUID();
        const until = performance.now() + ttl * 0.99 - 2;
        const votes = await cluster.votes('OK', ms, (node) => node.set(resource, token, 'PX', ttl, 'NX'));
        if (votes >= cluster.quorum && performance.now() < until)
          return new AutoLock(cluster, resource, token, ttl, until);
        await cluster.votes(1, ms, (node) => node.eval(FREE, 1, resource, token));
        await new Promise((resolve) => setTimeout(resolve, 40 + Math.random() * 100));
      }
      return null;
    },
  };
};
