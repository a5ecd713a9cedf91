import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class LockLostError extends Error {
  override name = 'LockLostError';
}

export interface Lease {
  readonly signal: AbortSignal;
  /** Throws when the lease is over. Call it right before each side effect. */
  assertHeld(): void;
}

interface Holding {
  key: string;
  token: string;
  depth: number;
  closed: boolean;
  validUntil: number;
  lost: AbortController;
  stop: AbortController;
  deadline?: NodeJS.Timeout;
  lease: Lease;
}

/**
 * Reentrant distributed lock. Reentrancy follows the async call chain
 * (AsyncLocalStorage), so a nested `run()` on the same key joins the lock of
 * the caller, while an unrelated request in the same process has to wait.
 */
export class ContextLock {
  private readonly als = new AsyncLocalStorage<ReadonlyMap<string, Holding>>();

  constructor(
    private readonly redis: Redis,
    private readonly ttl = 15_000,
    private readonly maxWait = 30_000,
  ) {}

  async run<T>(key: string, fn: (lease: Lease) => Promise<T>): Promise<T> {
    const outer = this.als.getStore();
    const joined = outer?.get(key);
    if (joined && !joined.closed) {
      joined.lease.assertHeld();
      joined.depth++;
      try {
        return await fn(joined.lease);
      } finally {
        await this.leave(joined);
      }
    }

    const holding = await this.acquire(key);
    try {
      const context = new Map(outer).set(key, holding);
      const result = await this.als.run(context, () => fn(holding.lease));
      holding.lease.assertHeld();
      return result;
    } finally {
      await this.leave(holding);
    }
  }

  private async acquire(key: string): Promise<Holding> {
    const giveUp = performance.now() + this.maxWait;
    for (;;) {
      const token = randomUUID();
      const sent = performance.now();
      const reply = await this.redis.set(key, token, 'PX', this.ttl, 'NX');
      if (reply === 'OK') {
        const holding = this.open(key, token);
        this.arm(holding, sent);
        if (performance.now() < holding.validUntil) {
          void this.keepAlive(holding);
          return holding;
        }
        await this.leave(holding); // the reply took longer than the lease
      }
      if (performance.now() > giveUp) throw new Error(`Timed out waiting for lock ${key}`);
      await sleep(100 + Math.random() * 150);
    }
  }

  private open(key: string, token: string): Holding {
    const lost = new AbortController();
    const holding: Holding = {
      key, token, lost, depth: 1, closed: false, validUntil: 0,
      stop: new AbortController(),
      lease: {
        signal: lost.signal,
        assertHeld: () => {
          lost.signal.throwIfAborted();
          if (holding.closed || performance.now() >= holding.validUntil) {
            throw new LockLostError(`Lease on ${key} is over`);
          }
        },
      },
    };
    return holding;
  }

  /** The lease counts from the moment the command was sent, minus a margin. */
  private arm(h: Holding, sent: number): void {
    h.validUntil = sent + this.ttl * 0.9;
    clearTimeout(h.deadline);
    h.deadline = setTimeout(
      () => h.lost.abort(new LockLostError(`Lease on ${h.key} ran out`)),
      Math.max(0, h.validUntil - performance.now()),
    );
  }

  private async keepAlive(h: Holding): Promise<void> {
    while (!h.closed && !h.lost.signal.aborted) {
      await sleep(this.ttl / 3, undefined, { signal: h.stop.signal }).catch(() => {});
      if (h.closed || h.lost.signal.aborted) return;
      const sent = performance.now();
      try {
        const ok = await this.redis.eval(EXTEND, 1, h.key, h.token, this.ttl);
        if (h.closed) return;
        if (ok === 1) this.arm(h, sent);
        else h.lost.abort(new LockLostError(`Lock ${h.key} is no longer ours`));
      } catch {
        // Redis unreachable: try again, the deadline timer bounds how long.
      }
    }
  }

  private async leave(h: Holding): Promise<void> {
    if (--h.depth > 0) return;
    h.closed = true;
    h.stop.abort();
    clearTimeout(h.deadline);
    await this.redis.eval(RELEASE, 1, h.key, h.token).catch(() => {}); // TTL cleans up
  }
}
