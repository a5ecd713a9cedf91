import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const RELEASE_IF_MINE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  else
    return 0
  end
`;

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

const withTimeout = <T>(promise: Promise<T>, ms: number): Promise<T> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('timeout')), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });

class DistributedLock {
  constructor(private readonly nodes: Redis[]) {}

  async acquire(resource: string, ttlMs: number) {
    const deadline = performance.now() + 3 * ttlMs;
    while (performance.now() < deadline) {
      const attempt = { token: randomUUID(), over: false };
      const startedAt = performance.now();
      try {
        const replies = await Promise.all(
          this.nodes.map((node) => withTimeout(this.setLock(node, resource, ttlMs, attempt), ttlMs / 4)),
        );
        const votes = replies.filter((reply) => reply === 'OK').length;
        const endsAt = startedAt + ttlMs - Math.ceil(ttlMs * 0.01) - 2;
        if (votes >= Math.floor(this.nodes.length / 2) + 1 && performance.now() < endsAt) {
          return {
            remaining: () => (attempt.over ? 0 : endsAt - performance.now()),
            release: () => this.unlockAll(resource, ttlMs, attempt),
          };
        }
      } catch {
        // A node was not there. Clean up and try again.
      }
      await this.unlockAll(resource, ttlMs, attempt);
      await sleep(ttlMs * (0.02 + Math.random() * 0.1));
    }
    return null;
  }

  private async setLock(node: Redis, resource: string, ttlMs: number, attempt: { token: string; over: boolean }) {
    const reply = await node.set(resource, attempt.token, 'PX', ttlMs, 'NX');
    if (reply === 'OK' && attempt.over) node.eval(RELEASE_IF_MINE, 1, resource, attempt.token).catch(() => {});
    return reply;
  }

  private async unlockAll(resource: string, ttlMs: number, attempt: { token: string; over: boolean }): Promise<void> {
    attempt.over = true;
    const unlock = (node: Redis) => withTimeout(node.eval(RELEASE_IF_MINE, 1, resource, attempt.token), ttlMs / 8);
    await Promise.allSettled(this.nodes.map((node) => unlock(node).catch(() => unlock(node))));
  }
}

export const make: MakeLock = ({ nodes }) => new DistributedLock(nodes);
