import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, type RedisOptions } from 'ioredis';
import { logger } from './logger';

// Work under either lock is limited to WORK_LIMIT_MS, well below the TTL.
const TTL_MS = 30_000;
const WORK_LIMIT_MS = 20_000;

declare module 'ioredis' {
  interface RedisCommander<Context> {
    enterRead(writer: string, readers: string, ttl: number): Promise<number>;
    leaveRead(readers: string): Promise<number>;
    enterWrite(writer: string, readers: string, token: string, ttl: number): Promise<number>;
    leaveWrite(writer: string, token: string): Promise<number>;
  }
}

export function connect(options: RedisOptions): Redis {
  const redis = new Redis({ ...options, commandTimeout: 2_000 });

  redis.defineCommand('enterRead', {
    numberOfKeys: 2,
    lua: `
      if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
      local n = redis.call('INCR', KEYS[2])
      if n == 1 then redis.call('PEXPIRE', KEYS[2], ARGV[1]) end
      return n`,
  });
  redis.defineCommand('leaveRead', {
    numberOfKeys: 1,
    lua: `
      if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
      local n = redis.call('DECR', KEYS[1])
      if n <= 0 then redis.call('DEL', KEYS[1]) end
      return n`,
  });
  redis.defineCommand('enterWrite', {
    numberOfKeys: 2,
    lua: `
      if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
      if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
      return 0`,
  });
  redis.defineCommand('leaveWrite', {
    numberOfKeys: 1,
    lua: `
      if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
      return 0`,
  });
  return redis;
}

type Work<T> = (signal: AbortSignal) => Promise<T>;

export class PriceListLock {
  private readonly redis: Redis;
  private readonly writer: string;
  private readonly readers: string;

  constructor(redis: Redis, listId: string) {
    this.redis = redis;
    this.writer = `{prices:${listId}}:writer`;
    this.readers = `{prices:${listId}}:readers`;
  }

  /** Quotes are computed under this one: the list does not change meanwhile. */
  async read<T>(work: Work<T>): Promise<T> {
    await this.until(() => this.redis.enterRead(this.writer, this.readers, TTL_MS), 5_000);
    try {
      return await work(AbortSignal.timeout(WORK_LIMIT_MS));
    } finally {
      await this.redis.leaveRead(this.readers).catch((err) => logger.warn({ err }, 'reader not signed off'));
    }
  }

  /** Imports replace the rows of the list in several statements. */
  async write<T>(work: Work<T>): Promise<T> {
    const token = randomUUID();
    await this.until(() => this.redis.enterWrite(this.writer, this.readers, token, TTL_MS), 60_000);
    try {
      return await work(AbortSignal.timeout(WORK_LIMIT_MS));
    } finally {
      await this.redis.leaveWrite(this.writer, token).catch((err) => logger.warn({ err }, 'writer not signed off'));
    }
  }

  private async until(attempt: () => Promise<number>, waitMs: number): Promise<void> {
    const giveUpAt = Date.now() + waitMs;
    while ((await attempt()) < 1) {
      if (Date.now() >= giveUpAt) throw new Error(`${this.writer}: not free within ${waitMs} ms`);
      await sleep(50 + Math.random() * 100);
    }
  }
}
