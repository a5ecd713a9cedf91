import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const DROP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const KEEP = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

export class NoQuorumError extends Error {}

export interface SettlementLease {
  readonly signal: AbortSignal;
  extend(): Promise<void>;
}

/**
 * Redlock over five independent masters (no replication between them).
 * The lock counts only with a majority of ALL configured nodes and only for the
 * time that is left after asking them.
 */
export class SettlementLock {
  private readonly nodes: readonly Redis[];
  private readonly quorum: number;

  constructor(a: Redis, b: Redis, c: Redis, d: Redis, e: Redis, private readonly nodeTimeoutMs = 150) {
    this.nodes = [a, b, c, d, e];
    this.quorum = Math.floor(this.nodes.length / 2) + 1;
  }

  async withLock<T>(batchId: string, ttlMs: number, fn: (lease: SettlementLease) => Promise<T>): Promise<T> {
    const key = `settlement:${batchId}`;
    const token = randomUUID();
    let until = await this.acquire(key, token, ttlMs, 4);

    const over = new AbortController();
    const expire = () => over.abort(new NoQuorumError(`${key}: validity is over`));
    let timer = setTimeout(expire, until - performance.now());

    const lease: SettlementLease = {
      signal: over.signal,
      extend: async () => {
        over.signal.throwIfAborted();
        const asked = performance.now();
        const kept = await this.vote((n) => n.eval(KEEP, 1, key, token, ttlMs), 1);
        const next = asked + ttlMs - this.drift(ttlMs);
        // without a majority the old deadline simply stays in force
        if (kept < this.quorum || performance.now() >= next) throw new NoQuorumError(`${key}: not extended`);
        over.signal.throwIfAborted(); // expired while we were asking
        until = next;
        clearTimeout(timer);
        timer = setTimeout(expire, until - performance.now());
      },
    };

    try {
      const result = await fn(lease);
      if (performance.now() >= until) expire();
      over.signal.throwIfAborted();
      return result;
    } finally {
      clearTimeout(timer);
      await this.dropEverywhere(key, token);
    }
  }

  private async acquire(key: string, token: string, ttlMs: number, tries: number): Promise<number> {
    for (let i = 0; i < tries; i++) {
      const asked = performance.now();
      const votes = await this.vote((n) => n.set(key, token, 'PX', ttlMs, 'NX'), 'OK');
      const until = asked + ttlMs - this.drift(ttlMs);
      if (votes >= this.quorum && performance.now() < until) return until;
      // also on nodes that did not answer: their write may have happened
      await this.dropEverywhere(key, token);
      await new Promise((r) => setTimeout(r, 50 + Math.random() * 200));
    }
    throw new NoQuorumError(`${key}: no majority after ${tries} tries`);
  }

  private async dropEverywhere(key: string, token: string): Promise<void> {
    await this.vote((n) => n.eval(DROP, 1, key, token), 1);
  }

  /** Asks all nodes in parallel; an error or a slow node is just a missing vote. */
  private async vote(ask: (node: Redis) => Promise<unknown>, yes: unknown): Promise<number> {
    const answers = await Promise.all(
      this.nodes.map(async (node) => {
        let timer: NodeJS.Timeout | undefined;
        const late = new Promise<false>((r) => (timer = setTimeout(() => r(false), this.nodeTimeoutMs)));
        try {
          return (await Promise.race([ask(node).then((v) => v === yes), late])) === true;
        } catch {
          return false;
        } finally {
          clearTimeout(timer);
        }
      }),
    );
    return answers.filter(Boolean).length;
  }

  private drift(ttlMs: number): number {
    return Math.ceil(ttlMs * 0.01) + 2;
  }
}
