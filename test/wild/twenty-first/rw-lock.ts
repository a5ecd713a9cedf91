import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

// Many readers or one writer. {braces} keep both keys of a name on one cluster slot.
//   rw:{name}:w   string, token of the writer
//   rw:{name}:r   set, one id per reader

const READ_IN = `
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SADD', KEYS[2], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1`;

const READ_OUT = `return redis.call('SREM', KEYS[2], ARGV[1])`;

const WRITE_IN = `
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0`;

const WRITE_OUT = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export interface Hold {
  /** How long this holder needs the lock at most. The lock is kept a bit longer. */
  forMs: number;
  waitMs?: number;
}

const SLACK_MS = 3_000;

export function rwLock(redis: Redis, name: string) {
  const keys = [`rw:{${name}}:w`, `rw:{${name}}:r`] as const;

  async function run<T>(
    enter: string,
    leave: string,
    { forMs, waitMs = 10_000 }: Hold,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const id = randomUUID();
    const giveUpAt = performance.now() + waitMs;
    let askedAt = performance.now();
    while ((await redis.eval(enter, 2, ...keys, id, forMs + SLACK_MS)) !== 1) {
      if (performance.now() > giveUpAt) throw new Error(`rw lock ${name}: gave up waiting`);
      await sleep(40 + Math.random() * 40);
      askedAt = performance.now();
    }
    try {
      const left = Math.floor(askedAt + forMs - performance.now());
      return await work(AbortSignal.timeout(Math.max(0, left)));
    } finally {
      await redis.eval(leave, 2, ...keys, id).catch(() => {});
    }
  }

  return {
    read: <T>(hold: Hold, work: (signal: AbortSignal) => Promise<T>) => run(READ_IN, READ_OUT, hold, work),
    write: <T>(hold: Hold, work: (signal: AbortSignal) => Promise<T>) => run(WRITE_IN, WRITE_OUT, hold, work),
  };
}

// ---------------------------------------------------------------------------

export interface Catalog {
  page(no: number, signal: AbortSignal): Promise<object[]>;
  price(sku: string, signal: AbortSignal): Promise<number>;
  replaceAll(items: object[], signal: AbortSignal): Promise<void>;
}

export function catalogAccess(redis: Redis, catalog: Catalog) {
  const lock = rwLock(redis, 'catalog');
  return {
    /** Needs a catalog that stands still from the first page to the last. */
    exportAll: (emit: (items: object[]) => void) =>
      lock.read({ forMs: 120_000 }, async (signal) => {
        for (let no = 1; ; no++) {
          signal.throwIfAborted();
          const items = await catalog.page(no, signal);
          if (items.length === 0) return;
          emit(items);
        }
      }),
    price: (sku: string) => lock.read({ forMs: 2_000 }, (signal) => catalog.price(sku, signal)),
    replace: (items: object[]) =>
      lock.write({ forMs: 30_000, waitMs: 180_000 }, (signal) => catalog.replaceAll(items, signal)),
  };
}
