import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const RELEASE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

function bounded(command: Promise<unknown>, ms: number): Promise<unknown> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), ms);
    command.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      () => {
        clearTimeout(timer);
        resolve(undefined);
      },
    );
  });
}

class Majority {
  constructor(private readonly nodes: Redis[]) {}

  get size(): number {
    return Math.floor(this.nodes.length / 2) + 1;
  }

  /** The nodes that gave us the key. */
  async set(key: string, token: string, ttl: number, ms: number): Promise<Redis[]> {
    const answers = await Promise.all(this.nodes.map((node) => bounded(node.set(key, token, 'PX', ttl, 'NX'), ms)));
    return this.nodes.filter((_, i) => answers[i] === 'OK');
  }

  async remove(key: string, token: string, ms: number, from: Redis[] = this.nodes): Promise<void> {
    await Promise.all(from.map((node) => bounded(node.eval(RELEASE, 1, key, token), ms)));
  }
}

export const make: MakeLock = ({ nodes }) => {
  const majority = new Majority(nodes);

  return {
    async acquire(resource, ttl) {
      const ms = Math.max(15, ttl / 8);
      for (let attempt = 0; attempt < 4; attempt++) {
        const token = randomBytes(16).toString('hex');
        const end = performance.now() + ttl - ttl / 100 - 2;
        const granted = await majority.set(resource, token, ttl, ms);

        if (granted.length >= majority.size && performance.now() < end) {
          let held = true;
          return {
            get isAcquired() {
              return held && performance.now() < end;
            },
            async release() {
              held = false;
              await majority.remove(resource, token, ms);
            },
          };
        }

        // Give back what we got, so that somebody else gets a majority.
        await majority.remove(resource, token, ms, granted);
        await sleep(30 + Math.random() * 90);
      }
      return null;
    },
  };
};
