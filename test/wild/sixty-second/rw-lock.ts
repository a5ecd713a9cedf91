import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';

// KEYS[1] readers (zset: token -> expiry), KEYS[2] writer, KEYS[3] a writer is waiting
const NOW = `local t = redis.call('TIME'); local now = t[1] * 1000 + math.floor(t[2] / 1000)`;

const READ = `${NOW}
if redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

const WRITE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) > 0 or redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('SET', KEYS[3], '1', 'PX', 1000)
  return 0
end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
redis.call('DEL', KEYS[3])
return 1`;

const WRITE_DONE = `
if redis.call('GET', KEYS[2]) == ARGV[1] then return redis.call('DEL', KEYS[2]) end
return 0`;

const READ_DONE = `return redis.call('ZREM', KEYS[1], ARGV[1])`;

export interface HoldOptions {
  /** Longest time the lock may be held, in ms. `signal` fires shortly before. */
  ttl?: number;
  waitMs?: number;
}

export class RwLockTimeoutError extends Error {
  constructor(name: string, mode: string) {
    super(`timed out waiting for ${mode} lock on ${name}`);
  }
}

/**
 * Shared/exclusive lock. Many readers or one writer; a waiting writer keeps
 * new readers out so that it is not starved.
 */
export class ReadWriteLock {
  private readonly keys: string[];

  constructor(private readonly redis: Redis, private readonly name: string) {
    this.keys = [`rw:{${name}}:readers`, `rw:{${name}}:writer`, `rw:{${name}}:waiting`];
  }

  read<T>(fn: (signal: AbortSignal) => Promise<T>, opts?: HoldOptions): Promise<T> {
    return this.hold('read', READ, READ_DONE, fn, opts);
  }

  write<T>(fn: (signal: AbortSignal) => Promise<T>, opts?: HoldOptions): Promise<T> {
    return this.hold('write', WRITE, WRITE_DONE, fn, opts);
  }

  private async hold<T>(
    mode: string,
    enter: string,
    leave: string,
    fn: (signal: AbortSignal) => Promise<T>,
    { ttl = 10_000, waitMs = 15_000 }: HoldOptions = {},
  ): Promise<T> {
    const token = randomUUID();
    const giveUpAt = performance.now() + waitMs;
    let sentAt: number;
    for (;;) {
      sentAt = performance.now();
      if ((await this.redis.eval(enter, 3, ...this.keys, token, ttl)) === 1) break;
      if (performance.now() > giveUpAt) throw new RwLockTimeoutError(this.name, mode);
      await sleep(80 + Math.random() * 80);
    }

    try {
      const left = ttl * 0.9 - (performance.now() - sentAt);
      return await fn(AbortSignal.timeout(Math.max(1, Math.floor(left))));
    } finally {
      await this.redis
        .eval(leave, 3, ...this.keys, token)
        .catch((err) => console.warn('%s lock on %s will expire: %s', mode, this.name, err.message));
    }
  }
}

// --- usage --------------------------------------------------------------------

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000 });
const catalog = new ReadWriteLock(redis, 'catalog');

/** Streams the whole catalog to the search index. Takes a minute or two. */
export const exportCatalog = (dump: (signal: AbortSignal) => Promise<void>) =>
  catalog.read(dump, { ttl: 180_000 });

export const lookUp = <T>(query: (signal: AbortSignal) => Promise<T>) =>
  catalog.read(query, { ttl: 3_000, waitMs: 5_000 });

/** Swaps in tonight's import; readers must never see half of it. */
export const replaceCatalog = (swap: (signal: AbortSignal) => Promise<void>) =>
  catalog.write(swap, { ttl: 60_000, waitMs: 240_000 });
