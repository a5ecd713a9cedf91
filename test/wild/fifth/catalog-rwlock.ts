import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

type Client = ReturnType<typeof createClient>;

const HOLD_MS = 30_000;
const SPARE_MS = 2_000;

// Storefront workers read a catalog snapshot (many at once), the importer swaps it (alone).
// Readers are members of a zset with their own end as score. `want` is set by a waiting
// writer so that new readers stand back for a moment.
const NOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
`;

const ENTER_READ = `${NOW}
if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('EXISTS', KEYS[3]) == 1 then return 0 end
redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) + 1000)
return 1`;

const ENTER_WRITE = `${NOW}
if redis.call('ZCARD', KEYS[1]) > 0 or redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('SET', KEYS[3], '1', 'PX', 2000)
  return 0
end
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
redis.call('DEL', KEYS[3])
return 1`;

const LEAVE_READ = `return redis.call('ZREM', KEYS[1], ARGV[1])`;

const LEAVE_WRITE = `
if redis.call('GET', KEYS[2]) == ARGV[1] then return redis.call('DEL', KEYS[2]) end
return 0`;

export class CatalogRwLock {
  private readonly keys: string[];

  constructor(
    private readonly redis: Client,
    shop: string,
  ) {
    this.keys = [`{catalog:${shop}}:readers`, `{catalog:${shop}}:writer`, `{catalog:${shop}}:want`];
  }

  read<T>(fn: (signal: AbortSignal) => Promise<T>, waitMs = 5_000): Promise<T> {
    return this.within(ENTER_READ, LEAVE_READ, fn, waitMs);
  }

  write<T>(fn: (signal: AbortSignal) => Promise<T>, waitMs = 60_000): Promise<T> {
    return this.within(ENTER_WRITE, LEAVE_WRITE, fn, waitMs);
  }

  /** fn has to stop at its signal; it comes SPARE_MS ahead of the end. */
  private async within<T>(
    enter: string,
    leave: string,
    fn: (signal: AbortSignal) => Promise<T>,
    waitMs: number,
  ): Promise<T> {
    const id = randomUUID();
    const giveUpAt = performance.now() + waitMs;

    try {
      for (;;) {
        const asked = performance.now();
        const ok = await this.redis.eval(enter, { keys: this.keys, arguments: [id, String(HOLD_MS)] });
        if (ok === 1) {
          const ms = Math.floor(asked + HOLD_MS - SPARE_MS - performance.now());
          if (ms <= 0) throw new Error('catalog lock answered too late');
          return await fn(AbortSignal.timeout(ms));
        }
        if (performance.now() > giveUpAt) throw new Error('catalog is locked');
        await sleep(100 + Math.random() * 150);
      }
    } finally {
      // also after an error on the way in: the id is ours alone
      await this.redis
        .eval(leave, { keys: this.keys, arguments: [id] })
        .catch((err: Error) => console.warn('catalog lock not released, will lapse:', err.message));
    }
  }
}

export async function swapSnapshot(
  lock: CatalogRwLock,
  store: { stage(signal: AbortSignal): Promise<string>; activate(id: string, o: { timeoutMs: number }): Promise<void> },
) {
  await lock.write(async (signal) => {
    const id = await store.stage(signal);
    signal.throwIfAborted();
    await store.activate(id, { timeoutMs: 1_000 }); // single UPDATE, cancelled by the server
  });
}
