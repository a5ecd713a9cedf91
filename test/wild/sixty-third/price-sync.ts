import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { PriceRepository } from './price-repository';
import type { Logger } from '../logger';

const LEASE_MS = 60_000;
const REQUEST_TIMEOUT_MS = 15_000;
const MAX_BACKOFF_MS = 10_000;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
else
  return 0
end`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`;

class Lease {
  readonly key: string;
  private readonly redis: Redis;
  private readonly token = randomUUID();

  constructor(redis: Redis, key: string) {
    this.redis = redis;
    this.key = key;
  }

  async acquire(): Promise<boolean> {
    return (await this.redis.set(this.key, this.token, 'PX', LEASE_MS, 'NX')) === 'OK';
  }

  /** Pushes the expiry out again. Resolves to whether we still hold the lease. */
  async extend(): Promise<boolean> {
    return (await this.redis.eval(EXTEND, 1, this.key, this.token, LEASE_MS)) === 1;
  }

  async release(): Promise<void> {
    await this.redis.eval(RELEASE, 1, this.key, this.token);
  }
}

interface PricePage {
  items: Array<{ sku: string; net: number; currency: string }>;
  next: string | null;
}

async function fetchPage(url: string, apiKey: string): Promise<PricePage> {
  const response = await fetch(url, {
    headers: { authorization: `Bearer ${apiKey}`, accept: 'application/json' },
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  });
  if (response.status === 429) {
    const seconds = Number(response.headers.get('retry-after') ?? 2);
    await delay(Math.min(seconds * 1000, MAX_BACKOFF_MS));
    throw new Error('rate limited');
  }
  if (!response.ok) throw new Error(`supplier answered ${response.status}`);
  return (await response.json()) as PricePage;
}

export interface PriceSyncDeps {
  redis: Redis;
  prices: PriceRepository;
  logger: Logger;
  supplier: { id: string; baseUrl: string; apiKey: string };
}

/**
 * Copies the price list of one supplier. Prices which the supplier does not
 * list any more are withdrawn at the end.
 */
export async function syncPrices({ redis, prices, logger, supplier }: PriceSyncDeps): Promise<void> {
  const lease = new Lease(redis, `price-sync:${supplier.id}`);
  if (!(await lease.acquire())) {
    logger.info({ supplier: supplier.id }, 'price sync already running');
    return;
  }

  const runId = randomUUID();
  try {
    let url: string | null = `${supplier.baseUrl}/v2/prices?limit=200`;
    let failures = 0;
    let total = 0;

    while (url !== null) {
      // Every page gets a full lease.
      await lease.extend();

      let page: PricePage;
      try {
        page = await fetchPage(url, supplier.apiKey);
      } catch (err) {
        failures += 1;
        if (failures > 5) throw err;
        logger.warn({ err, url, failures }, 'page failed, trying again');
        continue;
      }

      failures = 0;
      await prices.upsertMany(supplier.id, runId, page.items, { timeoutMs: 10_000 });
      total += page.items.length;
      url = page.next;
    }

    await lease.extend();
    const withdrawn = await prices.withdrawNotSeenIn(supplier.id, runId, { timeoutMs: 20_000 });
    logger.info({ supplier: supplier.id, total, withdrawn }, 'price sync finished');
  } finally {
    await lease.release().catch((err) => logger.warn({ err, key: lease.key }, 'lease not released'));
  }
}
