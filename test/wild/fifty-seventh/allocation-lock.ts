import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import pino from 'pino';

const log = pino({ name: 'allocation-lock' });

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

export interface HeldLock {
  resource: string;
  value: string;
  /** epoch ms up to which the lock may be relied upon */
  validUntil: number;
}

interface Options {
  urls: string[];
  nodeTimeoutMs?: number;
  retries?: number;
}

/**
 * Lock over several independent Redis primaries (five in production, see infra/redis-lock).
 * A lock counts when a majority of the nodes granted it within its validity time, so we
 * survive the loss of two of them.
 */
export class AllocationLock {
  private readonly nodes: Redis[];
  private readonly quorum: number;
  private readonly retries: number;

  constructor({ urls, nodeTimeoutMs = 50, retries = 5 }: Options) {
    if (urls.length < 3) throw new Error('at least three lock nodes are needed');
    this.nodes = urls.map((url) => {
      const node = new Redis(url, {
        commandTimeout: nodeTimeoutMs,
        maxRetriesPerRequest: 0,
        enableOfflineQueue: false,
      });
      node.on('error', (err) => log.debug({ err }, 'lock node'));
      return node;
    });
    this.quorum = Math.floor(urls.length / 2);
    this.retries = retries;
  }

  async acquire(resource: string, ttlMs: number): Promise<HeldLock | null> {
    for (let attempt = 0; attempt <= this.retries; attempt++) {
      const value = randomBytes(20).toString('hex');
      const startedAt = Date.now();
      const replies = await Promise.allSettled(
        this.nodes.map((node) => node.set(resource, value, 'PX', ttlMs, 'NX')),
      );
      const granted = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
      const drift = Math.ceil(ttlMs * 0.01) + 2;
      const validUntil = startedAt + ttlMs - drift;

      if (granted >= this.quorum && Date.now() < validUntil) {
        return { resource, value, validUntil };
      }

      log.debug({ resource, granted, attempt }, 'no majority');
      await this.release({ resource, value });
      await sleep(50 + Math.random() * 150);
    }
    return null;
  }

  /** Asks all nodes, also those that seemed to refuse: the grant may have arrived late. */
  async release({ resource, value }: Pick<HeldLock, 'resource' | 'value'>): Promise<void> {
    await Promise.allSettled(this.nodes.map((node) => node.eval(RELEASE, 1, resource, value)));
  }

  async run<T>(resource: string, ttlMs: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const lock = await this.acquire(resource, ttlMs);
    if (!lock) throw new Error(`could not lock ${resource}`);
    try {
      // the callers pass the signal to pg and fetch; stop one second before the validity ends
      return await work(AbortSignal.timeout(Math.max(0, lock.validUntil - Date.now() - 1_000)));
    } finally {
      await this.release(lock);
    }
  }
}

export const allocationLock = new AllocationLock({
  urls: (process.env.LOCK_NODES ?? '').split(',').filter(Boolean),
});
