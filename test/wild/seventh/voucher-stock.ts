import { Redis } from 'ioredis';
import { nanoid } from 'nanoid';

const UNLOCK = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

export class VoucherBusyError extends Error {}

export function makeVoucherStock(redis: Redis, store: VoucherStore, ttl = 10_000) {
  async function acquire(sku: string) {
    const key = `voucher:${sku}`;
    const token = nanoid();
    const at = performance.now();
    // one round trip for the lock and the figure for the dashboard
    const replies = await redis
      .multi()
      .set(key, token, 'PX', ttl, 'NX')
      .hincrby('voucher:attempts', sku, 1)
      .exec();
    const [granted] = replies ?? [];
    if (!granted) throw new VoucherBusyError(sku);
    return {
      usable: () => performance.now() - at < ttl * 0.6,
      release: () => redis.eval(UNLOCK, 1, key, token),
    };
  }

  return {
    async draw(sku: string, customer: string): Promise<string | null> {
      const lock = await acquire(sku);
      try {
        const code = await store.firstUnused(sku);
        if (!code) return null;
        if (!lock.usable()) throw new VoucherBusyError(`${sku}: too slow`);
        await store.assign(code, customer, { timeout: 2_000 });
        return code;
      } finally {
        await lock.release();
      }
    },
  };
}

export interface VoucherStore {
  firstUnused(sku: string): Promise<string | undefined>;
  assign(code: string, customer: string, o: { timeout: number }): Promise<void>;
}
