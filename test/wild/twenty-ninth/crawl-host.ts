import { Redis } from '@upstash/redis';
import { randomUUID } from 'node:crypto';

export interface HostLock {
  host: string;
  key: string;
  owner: string;
}

export interface CrawlQueue {
  nextUrl(host: string): Promise<string | null>;
  store(url: string, status: number, html: string): Promise<void>;
  retryLater(url: string): Promise<void>;
}

const LOCK_SECONDS = 40;
const FETCH_TIMEOUT_MS = 10_000;

/** Politeness: never more than one request at a time to one host, whichever worker it is. */
export class HostLocks {
  constructor(private readonly redis: Redis) {}

  async acquire(host: string): Promise<HostLock | null> {
    const key = `crawl:host:${host}`;
    const owner = randomUUID();
    const result = await this.redis.set(key, owner, { nx: true, ex: LOCK_SECONDS });
    return result === 'OK' ? { host, key, owner } : null;
  }

  async release(lock: HostLock): Promise<boolean> {
    const current = await this.redis.get<string>(lock.key);
    if (current !== lock.owner) {
      console.warn(`[crawl] ${lock.host}: lock now belongs to ${current ?? 'nobody'}`);
      return false;
    }
    await this.redis.del(lock.key);
    return true;
  }
}

export async function crawlHostOnce(locks: HostLocks, queue: CrawlQueue, host: string) {
  const lock = await locks.acquire(host);
  if (!lock) return 'busy' as const;

  try {
    const url = await queue.nextUrl(host);
    if (!url) return 'empty' as const;

    try {
      const res = await fetch(url, {
        redirect: 'manual',
        headers: { 'user-agent': 'OrchardBot/2.3 (+https://orchard.example/bot)' },
        signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
      });
      const html = await res.text();
      await queue.store(url, res.status, html);
      return 'fetched' as const;
    } catch (err) {
      console.info(`[crawl] ${url}: ${(err as Error).message}`);
      await queue.retryLater(url);
      return 'failed' as const;
    }
  } finally {
    await locks.release(lock).catch((err) => {
      console.error(`[crawl] ${host}: release failed, expires in ${LOCK_SECONDS}s`, err);
    });
  }
}
