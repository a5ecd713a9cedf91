import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export interface CrawlSemaphoreOptions {
  /** how many crawlers per site */
  limit: number;
  /** permits that are older do not count any more */
  timeoutMs: number;
}

/**
 * Counting semaphore on a sorted set (after "Redis in Action", chapter 6.3): the members are the
 * permits, the scores the time at which they were asked for. Those with the lowest ranks have one.
 */
export class CrawlSemaphore {
  constructor(
    private readonly redis: Redis,
    private readonly options: CrawlSemaphoreOptions,
  ) {}

  private key(site: string): string {
    return `crawl:permits:${site}`;
  }

  async tryAcquire(site: string): Promise<string | null> {
    const key = this.key(site);
    const id = randomUUID();
    const now = Date.now();

    const replies = await this.redis
      .multi()
      .zremrangebyscore(key, '-inf', now - this.options.timeoutMs)
      .zadd(key, now, id)
      .zrank(key, id)
      .exec();
    if (!replies) throw new Error('transaction was discarded');
    for (const [err] of replies) if (err) throw err;

    const rank = replies[2]![1] as number;
    if (rank < this.options.limit) return id;

    await this.redis.zrem(key, id);
    return null;
  }

  async acquire(site: string, signal?: AbortSignal): Promise<string> {
    for (;;) {
      signal?.throwIfAborted();
      const id = await this.tryAcquire(site);
      if (id) return id;
      await sleep(200 + Math.random() * 200, undefined, { signal });
    }
  }

  async release(site: string, id: string): Promise<void> {
    await this.redis.zrem(this.key(site), id);
  }

  /** `crawl` has to be done, or to have given up, when the signal says so. */
  async run<T>(site: string, crawl: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const id = await this.acquire(site);
    try {
      return await crawl(AbortSignal.timeout(Math.floor(this.options.timeoutMs * 0.9)));
    } finally {
      await this.release(site, id);
    }
  }
}
