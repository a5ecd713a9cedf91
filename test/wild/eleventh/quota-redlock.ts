import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end
return 0`;

const CLOCK_DRIFT = 0.01;

export type Handle = { resource: string; token: string; validUntil: number };

export class Redlock {
  readonly clients: Redis[];
  readonly quorum: number;

  constructor(urls: string[] = (process.env.REDLOCK_NODES ?? '').split(',')) {
    this.clients = urls.map(
      (url) => new Redis(url, { lazyConnect: true, commandTimeout: 800, maxRetriesPerRequest: 0 }),
    );
    for (const c of this.clients) c.on('error', () => {}); // a missing node is a missing vote
    this.quorum = Math.floor(this.clients.length / 2) + 1;
  }

  async lock(resource: string, ttl: number): Promise<Handle | null> {
    const token = randomUUID();
    let votes = 0;
    for (const client of this.clients) {
      try {
        if ((await client.set(resource, token, 'PX', ttl, 'NX')) === 'OK') votes++;
      } catch {
        // node is down or slow
      }
    }

    const drift = Math.round(ttl * CLOCK_DRIFT) + 2;
    const validUntil = performance.now() + ttl - drift;
    if (votes >= this.quorum && validUntil > performance.now()) {
      return { resource, token, validUntil };
    }
    await this.unlock({ resource, token, validUntil: 0 });
    return null;
  }

  async unlock(handle: Handle): Promise<void> {
    await Promise.allSettled(this.clients.map((c) => c.eval(RELEASE, 1, handle.resource, handle.token)));
  }

  timeLeft(handle: Handle): number {
    return handle.validUntil - performance.now();
  }
}

export interface QuotaTable {
  used(account: string): Promise<number>;
  /** one row, at most half a second (statement timeout) */
  setUsed(account: string, value: number): Promise<void>;
}

/** Books `units` on an account's monthly quota; false if it would go over the limit. */
export async function bookQuota(
  redlock: Redlock,
  table: QuotaTable,
  account: string,
  units: number,
  limit: number,
): Promise<boolean> {
  for (let attempt = 0; attempt < 10; attempt++) {
    const handle = await redlock.lock(`quota:${account}`, 3_000);
    if (!handle) {
      await new Promise((r) => setTimeout(r, 100 + Math.random() * 300));
      continue;
    }
    try {
      const used = await table.used(account);
      if (used + units > limit) return false;
      if (redlock.timeLeft(handle) < 600) throw new Error('quota lock is running out');
      await table.setUsed(account, used + units);
      return true;
    } finally {
      await redlock.unlock(handle);
    }
  }
  throw new Error(`quota of ${account} is busy`);
}
