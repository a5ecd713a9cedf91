import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/*
 * Read/write lock for wiki pages: many may read a page, one may write it.
 *
 *   {page}:w   string, token of the writer
 *   {page}:r   sorted set, tokens of the readers by the time (of the server) they run out
 */

const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`;

const LOCK_READ = `${NOW}
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. now)
redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), ARGV[1])
return 1`;

const LOCK_WRITE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', '(' .. now)
if redis.call('ZCARD', KEYS[2]) > 0 then return 0 end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0`;

const UNLOCK_WRITE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export interface PageLock {
  readonly until: number;
  unlock(): Promise<void>;
}

export class PageLocks {
  private readonly redis: Redis;
  private readonly ttl: number;

  constructor(redis: Redis, ttl = 10_000) {
    this.redis = redis;
    this.ttl = ttl;
  }

  async read(page: string, timeout = 5_000): Promise<PageLock> {
    const { token, until } = await this.wait(LOCK_READ, page, timeout);
    return {
      until,
      unlock: async () => {
        await this.redis.zrem(`{${page}}:r`, token);
      },
    };
  }

  async write(page: string, timeout = 5_000): Promise<PageLock> {
    const { token, until } = await this.wait(LOCK_WRITE, page, timeout);
    return {
      until,
      unlock: async () => {
        await this.redis.eval(UNLOCK_WRITE, 1, `{${page}}:w`, token);
      },
    };
  }

  /** The caller has to be done (or to stop) before `performance.now()` gets to `until`. */
  private async wait(script: string, page: string, timeout: number) {
    const token = randomUUID();
    const giveUp = performance.now() + timeout;
    for (;;) {
      const until = performance.now() + this.ttl;
      const got = await this.redis.eval(script, 2, `{${page}}:w`, `{${page}}:r`, token, this.ttl);
      if (got === 1) return { token, until };
      if (performance.now() > giveUp) throw new Error(`page ${page} is locked`);
      await sleep(30 + Math.random() * 70);
    }
  }
}
