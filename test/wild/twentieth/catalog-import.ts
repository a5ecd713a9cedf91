import { randomBytes } from 'node:crypto';
import type { Redis } from 'ioredis';

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface ImportLockOptions {
  redis: Redis;
  ttlMs?: number;
  /** Time kept free at the end of the lease for the step that is in flight. */
  marginMs?: number;
}

export type Guarded<T> = (signal: AbortSignal) => Promise<T>;

export function createImportLock({ redis, ttlMs = 30_000, marginMs = 6_000 }: ImportLockOptions) {
  /** Runs `fn` if nobody else does; resolves to undefined if the lock is taken. */
  return async function tryWithLock<T>(name: string, fn: Guarded<T>): Promise<T | undefined> {
    const key = `import:${name}:lock`;
    const token = randomBytes(16).toString('hex');
    const lost = new AbortController();
    let lapse: NodeJS.Timeout | undefined;
    let beat: NodeJS.Timeout | undefined;
    let finished = false;

    const leaseSince = (sentAt: number) => {
      clearTimeout(lapse);
      const left = sentAt + ttlMs - marginMs - performance.now();
      const stop = () => lost.abort(new Error(`${key}: lease ran out`));
      if (left <= 0) stop();
      else lapse = setTimeout(stop, left);
    };

    const scheduleBeat = () => {
      beat = setTimeout(async () => {
        const sentAt = performance.now();
        try {
          const ok = await redis.eval(EXTEND, 1, key, token, ttlMs);
          if (finished || lost.signal.aborted) return;
          if (ok !== 1) {
            lost.abort(new Error(`${key}: taken over`));
            return;
          }
          leaseSince(sentAt);
        } catch (err) {
          // Not fatal by itself: the lapse timer decides when to stop.
          console.warn(`${key}: extension failed`, err);
        }
        if (!finished && !lost.signal.aborted) scheduleBeat();
      }, ttlMs / 4);
    };

    const release = async () => {
      try {
        await redis.eval(RELEASE, 1, key, token);
      } catch (err) {
        console.warn(`${key}: release failed, waiting for expiry`, err);
      }
    };

    const sentAt = performance.now();
    let reply: 'OK' | null;
    try {
      reply = await redis.set(key, token, 'PX', ttlMs, 'NX');
    } catch (err) {
      await release();
      throw err;
    }
    if (reply !== 'OK') return undefined;

    leaseSince(sentAt);
    scheduleBeat();
    try {
      lost.signal.throwIfAborted();
      return await fn(lost.signal);
    } finally {
      finished = true;
      clearTimeout(beat);
      clearTimeout(lapse);
      await release();
    }
  };
}

export interface CatalogPage {
  rows: { sku: string; price: number }[];
  next?: string;
}

export async function importCatalog(
  redis: Redis,
  supplier: string,
  fetchPage: (cursor: string | undefined, signal: AbortSignal) => Promise<CatalogPage>,
  /** One upsert, given up when the signal fires. */
  save: (row: CatalogPage['rows'][number], signal: AbortSignal) => Promise<void>,
): Promise<number | undefined> {
  const tryWithLock = createImportLock({ redis });
  return tryWithLock(supplier, async (signal) => {
    let cursor: string | undefined;
    let count = 0;
    do {
      const page = await fetchPage(cursor, signal);
      for (const row of page.rows) {
        signal.throwIfAborted();
        await save(row, signal);
        count++;
      }
      cursor = page.next;
    } while (cursor);
    return count;
  });
}
