/**
 * Read-write lock on the show files of the lighting desk: any number of previews and
 * exports may read a file, and a save has it alone.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

/** KEYS: writer, readers. ARGV: token, ttl */
const READ = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1`;

const WRITE = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if redis.call('HLEN', KEYS[2]) > 0 then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

const WRITE_END = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export const PREVIEW_MS = 4_000;
export const EXPORT_MS = 120_000;
export const SAVE_MS = 10_000;

export class ShowFileLock {
  /** @param {import('ioredis').Redis} redis */
  constructor(redis) {
    this.redis = redis;
  }

  /** @param {string} show */
  static keys(show) {
    return [`{show:${show}}:writer`, `{show:${show}}:readers`];
  }

  /**
   * @param {string} script @param {string} show @param {string} token
   * @param {number} ttlMs @param {number} waitMs
   */
  async #enter(script, show, token, ttlMs, waitMs) {
    const [writer, readers] = ShowFileLock.keys(show);
    const giveUpAt = Date.now() + waitMs;
    for (;;) {
      // the work may use nine tenths of the time, counted from before the request
      const limit = AbortSignal.timeout(Math.floor(ttlMs * 0.9));
      if ((await this.redis.eval(script, 2, writer, readers, token, ttlMs)) === 1) return limit;
      if (Date.now() >= giveUpAt) throw new Error(`show ${show} is in use`);
      await sleep(50 + Math.random() * 100);
    }
  }

  /**
   * @template T
   * @param {string} show
   * @param {number} ttlMs  PREVIEW_MS or EXPORT_MS
   * @param {(limit: AbortSignal) => Promise<T>} work  stops when `limit` fires
   * @returns {Promise<T>}
   */
  async reading(show, ttlMs, work) {
    const token = randomUUID();
    const limit = await this.#enter(READ, show, token, ttlMs, 5_000);
    try {
      return await work(limit);
    } finally {
      await this.redis.hdel(ShowFileLock.keys(show)[1], token).catch(() => undefined);
    }
  }

  /**
   * @template T
   * @param {string} show
   * @param {(limit: AbortSignal) => Promise<T>} work  stops when `limit` fires
   * @returns {Promise<T>}
   */
  async writing(show, work) {
    const token = randomUUID();
    const limit = await this.#enter(WRITE, show, token, SAVE_MS, 15_000);
    try {
      return await work(limit);
    } finally {
      await this.redis.eval(WRITE_END, 1, ShowFileLock.keys(show)[0], token).catch(() => undefined);
    }
  }
}
