import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/**
 * Readers and writer lock for the on-disk index segments on the shared volume.
 * Searches open several segment files and need them to belong together (shared),
 * compaction rewrites the files in place (exclusive).
 */
export interface IndexLockOptions {
  holdMs: number;
  waitMs: number;
}

type Work<T> = (signal: AbortSignal) => Promise<T>;

const ADD_READER = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) * 2)
return 1`;

const TAKE_WRITER = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZCARD', KEYS[2]) > 0 then
  return 0
end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 1
end
return 0`;

const DROP_WRITER = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class IndexBusyError extends Error {
  override name = 'IndexBusyError';
}

export class SearchIndexLock {
  readonly #writerKey: string;
  readonly #readersKey: string;

  constructor(
    private readonly redis: Redis,
    indexName: string,
    private readonly options: IndexLockOptions,
  ) {
    this.#writerKey = `{index:${indexName}}:writer`;
    this.#readersKey = `{index:${indexName}}:readers`;
  }

  async shared<T>(work: Work<T>): Promise<T> {
    const token = await this.#until((candidate) => this.#tryShared(candidate));
    try {
      return await work(this.#budget(token.askedAt));
    } finally {
      await this.redis.zrem(this.#readersKey, token.value).catch(() => undefined);
    }
  }

  async exclusive<T>(work: Work<T>): Promise<T> {
    const token = await this.#until((candidate) => this.#tryExclusive(candidate));
    try {
      return await work(this.#budget(token.askedAt));
    } finally {
      await this.redis.eval(DROP_WRITER, 1, this.#writerKey, token.value).catch(() => undefined);
    }
  }

  async #tryShared(token: string): Promise<boolean> {
    if ((await this.redis.exists(this.#writerKey)) === 1) {
      return false;
    }
    const added = await this.redis.eval(ADD_READER, 1, this.#readersKey, token, this.options.holdMs);
    return added === 1;
  }

  async #tryExclusive(token: string): Promise<boolean> {
    const taken = await this.redis.eval(
      TAKE_WRITER,
      2,
      this.#writerKey,
      this.#readersKey,
      token,
      this.options.holdMs,
    );
    return taken === 1;
  }

  async #until(attempt: (token: string) => Promise<boolean>): Promise<{ value: string; askedAt: number }> {
    const giveUpAt = performance.now() + this.options.waitMs;
    while (performance.now() < giveUpAt) {
      const value = randomUUID();
      const askedAt = performance.now();
      if (await attempt(value)) {
        return { value, askedAt };
      }
      await sleep(20 + Math.random() * 60);
    }
    throw new IndexBusyError(`${this.#writerKey} not free within ${this.options.waitMs} ms`);
  }

  /** Work stops well before the entry in Redis does. */
  #budget(askedAt: number): AbortSignal {
    const left = askedAt + this.options.holdMs * 0.75 - performance.now();
    return AbortSignal.timeout(Math.max(0, Math.floor(left)));
  }
}

export interface Segments {
  query(terms: string[], signal: AbortSignal): Promise<string[]>;
  /** Goes file by file, each file in one step, and returns early when the signal aborts. */
  compactInPlace(signal: AbortSignal): Promise<{ files: number; finished: boolean }>;
}

export function searchService(lock: SearchIndexLock, segments: Segments) {
  return {
    search: (terms: string[]) => lock.shared((signal) => segments.query(terms, signal)),
    compact: () => lock.exclusive((signal) => segments.compactInPlace(signal)),
  };
}
