import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

export interface MultiNodeLockOptions {
  ttlMs: number;
  retries: number;
  retryDelayMs: number;
}

export interface Held {
  key: string;
  token: string;
  validUntil: number;
}

/** Redlock over independent Redis masters. */
export class MultiNodeLock {
  private readonly clients: Redis[];
  private readonly quorum: number;

  constructor(urls: string[], private readonly options: MultiNodeLockOptions) {
    this.clients = urls.map((url) => {
      const client = new Redis(url, { commandTimeout: 200, maxRetriesPerRequest: 0 });
      client.on('error', (err) => console.error(`[lock] ${url}: ${err.message}`));
      return client;
    });
    // majority of the nodes
    this.quorum = Math.floor(this.clients.length / 2);
  }

  async acquire(resource: string): Promise<Held> {
    const key = `mlock:${resource}`;
    const { ttlMs, retries, retryDelayMs } = this.options;
    for (let attempt = 0; attempt <= retries; attempt++) {
      const token = randomUUID();
      const start = performance.now();
      const replies = await Promise.allSettled(
        this.clients.map((client) => client.set(key, token, 'PX', ttlMs, 'NX')),
      );
      const granted = replies.filter((r) => r.status === 'fulfilled' && r.value === 'OK').length;
      const validUntil = start + ttlMs - (ttlMs * 0.01 + 2);

      if (granted >= this.quorum && performance.now() < validUntil) {
        return { key, token, validUntil };
      }
      await this.release({ key, token, validUntil });
      await sleep(retryDelayMs + Math.random() * retryDelayMs);
    }
    throw new Error(`Could not lock ${resource}`);
  }

  async release({ key, token }: Held): Promise<void> {
    await Promise.allSettled(this.clients.map((client) => client.eval(UNLOCK, 1, key, token)));
  }

  async using<T>(resource: string, fn: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const held = await this.acquire(resource);
    try {
      const left = Math.max(1, Math.floor(held.validUntil - performance.now()));
      return await fn(AbortSignal.timeout(left));
    } finally {
      await this.release(held);
    }
  }
}

export const settlementLock = new MultiNodeLock(
  ['redis://redis-a:6379', 'redis://redis-b:6379', 'redis://redis-c:6379'],
  { ttlMs: 15_000, retries: 5, retryDelayMs: 200 },
);
