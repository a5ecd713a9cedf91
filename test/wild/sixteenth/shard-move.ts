import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

/**
 * Moving a shard to another host. The lock is taken on a majority of
 * independent Redis nodes, given by the caller.
 */
const TTL_MS = 30_000;
const NODE_TIMEOUT_MS = 400;
const DRIFT_MS = Math.ceil(TTL_MS * 0.01) + 2;
const MARGIN_MS = 5_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface ShardDirectory {
  placement(shard: string, opts: { signal: AbortSignal }): Promise<{ host: string; version: number }>;
  copy(shard: string, from: string, to: string, opts: { signal: AbortSignal }): Promise<void>;
  /** Compare-and-set on version; rejects on a mismatch or an aborted signal. */
  setPlacement(
    shard: string,
    host: string,
    expectedVersion: number,
    opts: { signal: AbortSignal },
  ): Promise<void>;
}

export class ShardLockedError extends Error {}

function within<T>(promise: Promise<T>, ms: number): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

export class ShardMover {
  private readonly quorum: number;

  constructor(
    private readonly nodes: Redis[],
    private readonly directory: ShardDirectory,
  ) {
    if (nodes.length < 3) throw new RangeError('at least three Redis nodes are needed');
    this.quorum = Math.floor(nodes.length / 2) + 1;
  }

  async move(shard: string, target: string): Promise<void> {
    const key = `lock:shard:${shard}`;
    const token = randomUUID();
    try {
      const validUntil = await this.acquire(key, token);
      const signal = AbortSignal.timeout(validUntil - Date.now());

      const { host, version } = await this.directory.placement(shard, { signal });
      if (host === target) return;
      await this.directory.copy(shard, host, target, { signal });
      signal.throwIfAborted();
      await this.directory.setPlacement(shard, target, version, { signal });
    } finally {
      await this.releaseAll(key, token);
    }
  }

  /** Resolves to the time until which the lock may be used, or rejects. */
  private async acquire(key: string, token: string): Promise<number> {
    const startedAt = Date.now();
    const replies = await Promise.allSettled(
      this.nodes.map((node) => within(node.set(key, token, 'PX', TTL_MS, 'NX'), NODE_TIMEOUT_MS)),
    );
    const votes = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
    const validUntil = startedAt + TTL_MS - DRIFT_MS - MARGIN_MS;
    if (votes < this.quorum || Date.now() >= validUntil) {
      throw new ShardLockedError(`${key}: ${votes} of ${this.nodes.length} nodes, ${this.quorum} needed`);
    }
    return validUntil;
  }

  // All nodes, also those that did not answer: their SET may have arrived.
  private async releaseAll(key: string, token: string): Promise<void> {
    const replies = await Promise.allSettled(
      this.nodes.map((node) => within(node.eval(RELEASE, 1, key, token), NODE_TIMEOUT_MS)),
    );
    const failed = replies.filter((r) => r.status === 'rejected').length;
    if (failed > 0) console.warn(`${key}: ${failed} node(s) left to their TTL`);
  }
}
