import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

// No Lua here: scripting is disabled on our managed nodes.

class TimeoutError extends Error {}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

function timeLimit<T>(work: Promise<T>, ms: number): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new TimeoutError()), ms);
    work.then(
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

class PlainLock {
  private readonly value = randomUUID();
  private validUntilTick = 0;
  private freed = false;

  private constructor(
    private readonly nodes: Redis[],
    private readonly key: string,
    private readonly ttl: number,
  ) {}

  static async acquire(nodes: Redis[], key: string, ttl: number): Promise<PlainLock | null> {
    const stop = performance.now() + ttl * 3;
    do {
      const lock = new PlainLock(nodes, key, ttl);
      if (await lock.attempt()) return lock;
      await lock.release();
      await sleep(ttl * 0.03 + Math.random() * ttl * 0.1);
    } while (performance.now() < stop);
    return null;
  }

  private async attempt(): Promise<boolean> {
    const start = performance.now();
    const votes = await Promise.allSettled(this.nodes.map((node) => timeLimit(this.setAt(node), this.ttl / 4)));
    const yes = votes.filter((vote) => vote.status === 'fulfilled' && vote.value).length;
    this.validUntilTick = start + this.ttl - Math.ceil(this.ttl * 0.01) - 2;
    return yes > this.nodes.length / 2 && this.isHeld();
  }

  private async setAt(node: Redis): Promise<boolean> {
    const ok = (await node.set(this.key, this.value, 'PX', this.ttl, 'NX')) === 'OK';
    if (ok && this.freed) this.freeAt(node).catch(() => {});
    return ok;
  }

  isHeld(): boolean {
    return !this.freed && performance.now() < this.validUntilTick;
  }

  async release(): Promise<void> {
    this.freed = true;
    await Promise.all(
      this.nodes.map((node) =>
        timeLimit(this.freeAt(node), this.ttl / 6)
          .catch(() => timeLimit(this.freeAt(node), this.ttl / 6))
          .catch(() => {}),
      ),
    );
  }

  private async freeAt(node: Redis): Promise<void> {
    // Only our own key: the lock may have expired, and be somebody else's by now.
    if ((await node.get(this.key)) === this.value) await node.del(this.key);
  }
}

export const make: MakeLock = ({ nodes }) => ({
  acquire: (resource, ttlMs) => PlainLock.acquire(nodes, resource, ttlMs),
});
