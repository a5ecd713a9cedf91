import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

/**
 * Read/write lock for the product catalog: search feeds read a whole version,
 * the publisher swaps the tables underneath.
 *
 *   catalog:{name}:readers   hash, one field for each reader
 *   catalog:{name}:writer    token of the writer
 */

const LOCK_TTL_MS = 60_000;
const POLL_MS = 150;

const READ_LOCK = `
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], 1)
if redis.call('HLEN', KEYS[1]) == 1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1`;

const READ_UNLOCK = `return redis.call('HDEL', KEYS[1], ARGV[1])`;

const WRITE_LOCK = `
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
if redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 1
end
return 0`;

const WRITE_UNLOCK = `
if redis.call('GET', KEYS[2]) == ARGV[1] then
  return redis.call('DEL', KEYS[2])
end
return 0`;

export class CatalogLockTimeout extends Error {
  constructor(mode: string, catalog: string) {
    super(`no ${mode} lock on catalog ${catalog} in time`);
    this.name = 'CatalogLockTimeout';
  }
}

export interface CatalogLocks {
  /** The work has to be done when the signal fires. */
  read<T>(catalog: string, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
  write<T>(catalog: string, work: (signal: AbortSignal) => Promise<T>): Promise<T>;
}

export function createCatalogLocks(redis: Redis, waitMs = 20_000): CatalogLocks {
  async function locked<T>(
    mode: 'read' | 'write',
    catalog: string,
    lockScript: string,
    unlockScript: string,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const keys = [`catalog:{${catalog}}:readers`, `catalog:{${catalog}}:writer`];
    const token = randomUUID();
    const giveUpAt = performance.now() + waitMs;

    let sentAt = performance.now();
    while ((await redis.eval(lockScript, 2, ...keys, token, LOCK_TTL_MS)) !== 1) {
      if (performance.now() >= giveUpAt) throw new CatalogLockTimeout(mode, catalog);
      await sleep(POLL_MS + Math.random() * POLL_MS);
      sentAt = performance.now();
    }

    // Leave some time for the work to wind down.
    const workMs = Math.max(0, LOCK_TTL_MS - 10_000 - Math.ceil(performance.now() - sentAt));
    const signal = AbortSignal.timeout(workMs);
    try {
      const result = await work(signal);
      signal.throwIfAborted();
      return result;
    } finally {
      await redis.eval(unlockScript, 2, ...keys, token).catch(() => undefined);
    }
  }

  return {
    read: (catalog, work) => locked('read', catalog, READ_LOCK, READ_UNLOCK, work),
    write: (catalog, work) => locked('write', catalog, WRITE_LOCK, WRITE_UNLOCK, work),
  };
}
