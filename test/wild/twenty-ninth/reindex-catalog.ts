import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RENEW = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class LeaseLostError extends Error {
  override name = 'LeaseLostError';
}

/** A renewed lease. `signal` fires as soon as we can no longer be sure that we hold it. */
export class Lease implements AsyncDisposable {
  #redis: Redis;
  #key: string;
  #token: string;
  #ttlMs: number;
  #abort = new AbortController();
  #heartbeat: NodeJS.Timeout;
  #deadline: NodeJS.Timeout | undefined;
  #disposed = false;

  private constructor(redis: Redis, key: string, token: string, ttlMs: number, heldSince: number) {
    this.#redis = redis;
    this.#key = key;
    this.#token = token;
    this.#ttlMs = ttlMs;
    this.#armDeadline(heldSince);
    this.#heartbeat = setInterval(() => void this.#renew(), Math.floor(ttlMs / 4));
  }

  static async tryAcquire(redis: Redis, key: string, ttlMs: number): Promise<Lease | null> {
    const token = randomUUID();
    const startedAt = performance.now();
    const reply = await redis.set(key, token, 'PX', ttlMs, 'NX');
    return reply === 'OK' ? new Lease(redis, key, token, ttlMs, startedAt) : null;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  // Counted from just before the command was sent, and a tenth of the TTL early.
  #armDeadline(since: number) {
    clearTimeout(this.#deadline);
    const left = since + this.#ttlMs * 0.9 - performance.now();
    this.#deadline = setTimeout(() => this.#lose('not renewed in time'), Math.max(0, left));
  }

  async #renew() {
    const sentAt = performance.now();
    try {
      const ok = await this.#redis.eval(RENEW, 1, this.#key, this.#token, this.#ttlMs);
      if (this.#disposed || this.#abort.signal.aborted) return;
      if (ok === 1) this.#armDeadline(sentAt);
      else this.#lose('taken over or expired');
    } catch (err) {
      // A blip is fine, the next beat tries again; the deadline catches an outage.
      console.warn(`[lease] ${this.#key}: renewal failed`, err);
    }
  }

  #lose(why: string) {
    if (this.#disposed) return;
    clearInterval(this.#heartbeat);
    clearTimeout(this.#deadline);
    this.#abort.abort(new LeaseLostError(`${this.#key}: ${why}`));
  }

  async [Symbol.asyncDispose]() {
    this.#disposed = true;
    clearInterval(this.#heartbeat);
    clearTimeout(this.#deadline);
    try {
      await this.#redis.eval(RELEASE, 1, this.#key, this.#token);
    } catch (err) {
      console.warn(`[lease] ${this.#key}: release failed, it will expire by itself`, err);
    }
  }
}

export interface ProductPage {
  items: { id: string; version: number; body: unknown }[];
  next: string | null;
}

export interface CatalogSource {
  page(cursor: string | null, signal: AbortSignal): Promise<ProductPage>;
}

export interface SearchIndex {
  /** Upserts by id; the index keeps the higher version (version_type=external_gte). */
  bulkUpsert(items: ProductPage['items'], signal: AbortSignal): Promise<void>;
}

export async function reindexCatalog(redis: Redis, shop: string, source: CatalogSource, index: SearchIndex) {
  await using lease = await Lease.tryAcquire(redis, `reindex:${shop}`, 20_000);
  if (!lease) {
    console.info(`[reindex] ${shop}: already being reindexed elsewhere`);
    return { started: false, count: 0 };
  }

  let cursor: string | null = null;
  let count = 0;
  do {
    lease.signal.throwIfAborted();
    const page: ProductPage = await source.page(cursor, lease.signal);
    lease.signal.throwIfAborted();
    await index.bulkUpsert(page.items, lease.signal);
    count += page.items.length;
    cursor = page.next;
  } while (cursor);

  console.info(`[reindex] ${shop}: ${count} products`);
  return { started: true, count };
}
