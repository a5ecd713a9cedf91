import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

// `npm run reindex -- <index>`; also started by the deploy of the search service.

const TTL_MS = 20_000;
const STOP_BEFORE_MS = 2_500;

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

class IndexLock implements AsyncDisposable {
  readonly #lost = new AbortController();
  #closed = false;
  #beat: NodeJS.Timeout;
  #expiry: NodeJS.Timeout | undefined;

  private constructor(
    private readonly redis: Redis,
    private readonly key: string,
    private readonly token: string,
    sentAt: number,
  ) {
    this.#arm(sentAt);
    this.#beat = setInterval(() => void this.#extend(), TTL_MS / 4);
  }

  static async tryAcquire(redis: Redis, key: string): Promise<IndexLock | null> {
    const token = randomUUID();
    const sentAt = performance.now();
    const reply = await redis.set(key, token, 'PX', TTL_MS, 'NX');
    return reply === 'OK' ? new IndexLock(redis, key, token, sentAt) : null;
  }

  /** Fires when the lock is gone or can no longer be relied on. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  #arm(from: number): void {
    clearTimeout(this.#expiry);
    const left = from + TTL_MS - STOP_BEFORE_MS - performance.now();
    this.#expiry = setTimeout(() => this.#lose('not extended in time'), Math.max(0, left));
  }

  #lose(why: string): void {
    clearInterval(this.#beat);
    clearTimeout(this.#expiry);
    this.#lost.abort(new Error(`${this.key}: ${why}`));
  }

  async #extend(): Promise<void> {
    const sentAt = performance.now();
    try {
      const kept = await this.redis.eval(EXTEND, 1, this.key, this.token, TTL_MS);
      if (this.#closed || this.#lost.signal.aborted) return;
      if (kept === 1) this.#arm(sentAt);
      else this.#lose('taken by somebody else');
    } catch {
      // next beat, or the expiry timer
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    clearInterval(this.#beat);
    clearTimeout(this.#expiry);
    await this.redis.eval(RELEASE, 1, this.key, this.token).catch(() => {
      // expires within TTL_MS
    });
  }
}

export interface SearchBackend {
  createShadow(index: string): Promise<string>;
  add(shadow: string, docs: unknown[], signal: AbortSignal): Promise<void>;
  swap(index: string, shadow: string, signal: AbortSignal): Promise<void>;
  drop(shadow: string): Promise<void>;
}

export async function reindex(
  index: string,
  backend: SearchBackend,
  documents: (index: string) => AsyncIterable<unknown[]>,
): Promise<'done' | 'busy'> {
  const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379', { maxRetriesPerRequest: 3 });
  redis.on('error', () => {});
  try {
    await using lock = await IndexLock.tryAcquire(redis, `reindex:${index}`);
    if (!lock) return 'busy';

    const shadow = await backend.createShadow(index);
    try {
      for await (const docs of documents(index)) {
        lock.signal.throwIfAborted();
        await backend.add(shadow, docs, lock.signal);
      }
      lock.signal.throwIfAborted();
      await backend.swap(index, shadow, lock.signal);
    } catch (err) {
      await backend.drop(shadow).catch(() => {});
      throw err;
    }
    return 'done';
  } finally {
    redis.disconnect();
  }
}
