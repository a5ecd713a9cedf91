import * as crypto from 'node:crypto';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

/*
 * Tasks of one process that want the same resource stand in a line, so that they do not take votes from each other.
 * The line is about the attempts only. Who has got the lock leaves it.
 */
const unlockScript = [
  "if redis.call('get', KEYS[1]) == ARGV[1] then",
  "  return redis.call('del', KEYS[1])",
  'end',
  'return 0',
].join('\n');

class Line {
  private readonly ends = new Map<string, Promise<unknown>>();

  join<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.ends.get(name) ?? Promise.resolve();
    const mine = before.then(work);
    const end = mine.then(
      () => {},
      () => {},
    );
    this.ends.set(name, end);
    void end.then(() => {
      if (this.ends.get(name) === end) this.ends.delete(name);
    });
    return mine;
  }
}

function inTime<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(undefined), ms);
    promise.then(
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

class QuorumLock {
  private readonly line = new Line();
  private readonly need: number;

  constructor(private readonly redises: readonly Redis[]) {
    this.need = Math.floor(redises.length / 2) + 1;
  }

  acquire(resource: string, ttl: number) {
    return this.line.join(resource, () => this.contend(resource, ttl));
  }

  private async contend(resource: string, ttl: number) {
    const limit = Math.max(20, Math.round(ttl / 5));
    let wait = 25;
    for (let round = 0; round < 5; round++) {
      const secret = crypto.randomBytes(20).toString('base64');
      const started = performance.now();
      const replies = await Promise.all(
        this.redises.map((redis) => inTime(redis.set(resource, secret, 'PX', ttl, 'NX'), limit)),
      );
      const granted = replies.filter((reply) => reply === 'OK').length;
      const validity = ttl - (performance.now() - started) - (ttl * 0.01 + 2);
      if (granted >= this.need && validity > 0) return this.handle(resource, secret, started + ttl - (ttl * 0.01 + 2));
      await this.undo(resource, secret, limit);
      await new Promise((resolve) => setTimeout(resolve, wait * (0.5 + Math.random())));
      wait *= 2;
    }
    return null;
  }

  private handle(resource: string, secret: string, end: number) {
    let given = true;
    return {
      resource,
      get isAcquired() {
        return given && performance.now() < end;
      },
      unlock: async () => {
        given = false;
        await this.undo(resource, secret, 800);
      },
    };
  }

  private async undo(resource: string, secret: string, limit: number): Promise<void> {
    await Promise.all(this.redises.map((redis) => inTime(redis.eval(unlockScript, 1, resource, secret), limit)));
  }
}

export const make: MakeLock = ({ nodes }) => new QuorumLock(nodes);
