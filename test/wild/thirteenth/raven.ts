import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Redis } from 'ioredis';
import type { MakeLock } from '../../../libraries/lock-under-test.js';

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

type Reply = { ok: true; value: unknown } | { ok: false };

function reply(command: Promise<unknown>, timeoutMs: number): Promise<Reply> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve({ ok: false }), timeoutMs);
    command.then(
      (value) => {
        clearTimeout(timer);
        resolve({ ok: true, value });
      },
      () => {
        clearTimeout(timer);
        resolve({ ok: false });
      },
    );
  });
}

export class RedisMutex {
  /** Shown by `redis-cli get`, so that one sees who has the lock. */
  private readonly owner = `${hostname()}/${randomUUID()}`;
  private readonly quorum: number;

  constructor(private readonly nodes: Redis[]) {
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async acquire(resource: string, ttlMs: number) {
    const timeoutMs = Math.max(20, ttlMs / 5);
    for (let attempt = 0; attempt < 5; attempt++) {
      const startedAt = performance.now();
      const replies = await Promise.all(
        this.nodes.map((node) => reply(node.set(resource, this.owner, 'PX', ttlMs, 'NX'), timeoutMs)),
      );
      const votes = replies.filter((r) => r.ok && r.value === 'OK').length;
      const endsAt = startedAt + ttlMs - (ttlMs * 0.01 + 2);
      if (votes >= this.quorum && performance.now() < endsAt) {
        return new Hold(endsAt, () => this.clear(resource, timeoutMs));
      }
      await this.clear(resource, timeoutMs);
      await this.backOff(attempt);
    }
    return null;
  }

  private async clear(resource: string, timeoutMs: number): Promise<void> {
    await Promise.all(this.nodes.map((node) => reply(node.eval(RELEASE, 1, resource, this.owner), timeoutMs)));
  }

  private backOff(attempt: number): Promise<void> {
    const ms = Math.min(400, 30 * 2 ** attempt) * (0.5 + Math.random() / 2);
    return new Promise((resolve) => setTimeout(resolve, ms));
  }
}

class Hold {
  private done = false;

  constructor(
    private readonly endsAt: number,
    private readonly clear: () => Promise<void>,
  ) {}

  isHeld(): boolean {
    return !this.done && performance.now() < this.endsAt;
  }

  async release(): Promise<void> {
    if (this.done) return;
    this.done = true;
    await this.clear();
  }
}

export const make: MakeLock = ({ nodes }) => new RedisMutex(nodes);
