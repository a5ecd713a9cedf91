import type { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RETURN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const LEASE_MS = 40_000;
const SPARE_MS = 4_000;

export class FrontierLease {
  private endsAt: number;

  private constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
    askedAt: number,
  ) {
    this.endsAt = askedAt + LEASE_MS - SPARE_MS;
  }

  static async take(redis: Redis, domain: string): Promise<FrontierLease | null> {
    const key = `crawl:frontier:${domain}`;
    const token = randomUUID();
    const askedAt = performance.now();
    const reply = await redis.set(key, token, 'PX', LEASE_MS, 'NX');
    return reply === 'OK' ? new FrontierLease(redis, key, token, askedAt) : null;
  }

  get msLeft(): number {
    return this.endsAt - performance.now();
  }

  async renew(): Promise<void> {
    const askedAt = performance.now();
    await this.redis.eval(RENEW, 1, this.key, this.token, LEASE_MS);
    this.endsAt = askedAt + LEASE_MS - SPARE_MS;
  }

  async giveBack(): Promise<void> {
    this.endsAt = 0;
    await this.redis
      .eval(RETURN, 1, this.key, this.token)
      .catch((err: Error) => console.warn(`${this.key}: ${err.message}`));
  }
}

export interface Frontier {
  pop(domain: string, o: { timeoutMs: number }): Promise<string | null>;
  push(domain: string, urls: string[], o: { timeoutMs: number }): Promise<void>;
}

export type Fetcher = (url: string) => Promise<{ links: string[]; delayMs: number }>;

const QUEUE_MS = 1_500;

/** Crawls one domain politely: whoever has the lease is the only one to knock at that server. */
export class DomainCrawler extends EventEmitter {
  constructor(
    private readonly redis: Redis,
    private readonly frontier: Frontier,
    private readonly fetchPage: Fetcher,
  ) {
    super();
  }

  async crawl(domain: string, maxPages = 5_000): Promise<number> {
    const lease = await FrontierLease.take(this.redis, domain);
    if (!lease) return 0;

    let pages = 0;
    try {
      while (pages < maxPages) {
        if (lease.msLeft < LEASE_MS / 2) await lease.renew();
        if (lease.msLeft < QUEUE_MS) throw new Error(`lease on ${domain} is over`);

        const url = await this.frontier.pop(domain, { timeoutMs: QUEUE_MS });
        if (!url) break;

        const { links, delayMs } = await this.fetchPage(url); // slow hosts: up to a minute
        pages++;
        this.emit('page', url, links.length);

        if (lease.msLeft < LEASE_MS / 2) await lease.renew();
        await this.frontier.push(domain, links, { timeoutMs: QUEUE_MS });
        await new Promise((r) => setTimeout(r, Math.min(delayMs, 5_000)));
      }
      return pages;
    } finally {
      await lease.giveBack();
      this.emit('idle', domain, pages);
    }
  }
}
