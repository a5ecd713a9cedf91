import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from 'lockstep/testing';

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const NODE_TIMEOUT = 120;
const TRIES = 5;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer within ${ms} ms`)), ms);
    promise.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}

class SequentialRedlock {
  private readonly nodes: readonly Redis[];
  private readonly quorum: number;

  constructor(nodes: readonly Redis[]) {
    this.nodes = nodes;
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async acquire(resource: string, ttl: number) {
    for (let attempt = 1; attempt <= TRIES; attempt++) {
      if (attempt > 1) await sleep(60 + Math.random() * 180);
      const token = randomUUID();
      const start = performance.now();
      let votes = 0;
      let over = false;
      for (const node of this.nodes) {
        const answer = node
          .setnx(resource, token)
          .then(async (won) => (won === 1 && (await node.pexpire(resource, ttl)) === 1 ? 'OK' : null));
        answer.then((reply) => {
          if (over && reply === 'OK') void this.unlockAt(node, resource, token);
        }, () => {});
        try {
          if ((await within(answer, NODE_TIMEOUT)) === 'OK') votes++;
        } catch {
          // this node does not vote
        }
      }
      const validUntil = start + ttl - (ttl * 0.01 + 2);
      if (votes >= this.quorum && performance.now() < validUntil) {
        return {
          remaining: () => (over ? 0 : Math.max(0, validUntil - performance.now())),
          release: async () => {
            over = true;
            await this.unlock(resource, token);
          },
        };
      }
      over = true;
      await this.unlock(resource, token);
    }
    return null;
  }

  private async unlockAt(node: Redis, resource: string, token: string): Promise<void> {
    try {
      await within(node.eval(UNLOCK, 1, resource, token), NODE_TIMEOUT);
    } catch {
      // the key runs out by itself
    }
  }

  private async unlock(resource: string, token: string): Promise<void> {
    await Promise.all(this.nodes.map((node) => this.unlockAt(node, resource, token)));
  }
}

export const make: MakeLock = ({ nodes }) => new SequentialRedlock(nodes);
