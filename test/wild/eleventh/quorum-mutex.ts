import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';

const UNLOCK = 'if redis.call("get",KEYS[1])==ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end';

export class LockUnavailable extends Error {}
export class LockExpired extends Error {}

export interface Lease {
  /** aborted when the lock is no longer valid */
  readonly signal: AbortSignal;
  /** throws unless at least `needMs` (1000) of validity are left; call it before every side effect */
  ensure(needMs?: number): void;
}

export interface QuorumMutexOptions {
  ttlMs?: number;
  nodeTimeoutMs?: number;
  attempts?: number;
}

function within<T>(p: Promise<T>, ms: number): Promise<T> {
  let t: NodeJS.Timeout;
  const late = new Promise<never>((_, no) => {
    t = setTimeout(() => no(new Error(`no answer within ${ms} ms`)), ms);
  });
  return Promise.race([p, late]).finally(() => clearTimeout(t));
}

/** A mutex over independent Redis nodes (no replication between them). */
export class QuorumMutex {
  private readonly quorum: number;
  private readonly ttlMs: number;
  private readonly nodeTimeoutMs: number;
  private readonly attempts: number;

  constructor(private readonly nodes: Redis[], opts: QuorumMutexOptions = {}) {
    if (nodes.length === 0) throw new Error('no nodes');
    this.quorum = Math.floor(nodes.length / 2) + 1;
    this.ttlMs = opts.ttlMs ?? 15_000;
    this.nodeTimeoutMs = opts.nodeTimeoutMs ?? 250;
    this.attempts = opts.attempts ?? 15;
  }

  /** `fn` has to stop when lease.signal aborts, and to call lease.ensure() before it writes. */
  async run<T>(name: string, fn: (lease: Lease) => Promise<T>): Promise<T> {
    const key = `mutex:${name}`;
    const { token, validUntil } = await this.acquire(key);

    const ctl = new AbortController();
    const timer = setTimeout(() => ctl.abort(new LockExpired(name)), validUntil - performance.now());
    const lease: Lease = {
      signal: ctl.signal,
      ensure: (needMs = 1_000) => {
        if (ctl.signal.aborted || performance.now() + needMs >= validUntil) throw new LockExpired(name);
      },
    };
    try {
      return await fn(lease);
    } finally {
      clearTimeout(timer);
      await this.releaseAll(key, token);
    }
  }

  private async acquire(key: string) {
    for (let i = 0; i < this.attempts; i++) {
      const token = randomBytes(16).toString('hex');
      const start = performance.now();
      const votes = await Promise.all(this.nodes.map((n) => this.vote(n, key, token)));
      const validUntil = start + this.ttlMs - (this.ttlMs * 0.01 + 2);
      const yes = votes.filter((v) => v).length;

      if (yes >= this.quorum && performance.now() < validUntil) return { token, validUntil };

      await this.releaseAll(key, token);
      await new Promise((r) => setTimeout(r, 80 + Math.random() * 160));
    }
    throw new LockUnavailable(key);
  }

  private async vote(node: Redis, key: string, token: string): Promise<boolean> {
    try {
      return (await within(node.set(key, token, 'PX', this.ttlMs, 'NX'), this.nodeTimeoutMs)) === 'OK';
    } catch {
      return false;
    }
  }

  /** All nodes, also those that did not answer: the SET may have arrived nevertheless. */
  private async releaseAll(key: string, token: string): Promise<void> {
    await Promise.allSettled(
      this.nodes.map((n) => within(n.eval(UNLOCK, 1, key, token), this.nodeTimeoutMs)),
    );
  }
}
