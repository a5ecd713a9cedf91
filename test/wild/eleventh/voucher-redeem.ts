import { Redis } from '@upstash/redis';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL ?? 'http://127.0.0.1:8079',
  token: process.env.UPSTASH_REDIS_REST_TOKEN ?? 'dev',
});

const LOCK_TTL_SECONDS = 15;
const WORK_BUDGET_MS = 10_000;

export interface VoucherStore {
  find(code: string, signal: AbortSignal): Promise<{ code: string; left: number } | null>;
  /** one row update; takes a few milliseconds and is given up when the signal aborts */
  consume(code: string, left: number, userId: string, signal: AbortSignal): Promise<void>;
}

async function acquireLock(code: string) {
  const key = `voucher:${code}:lock`;
  const value = `v_${crypto.randomUUID()}`;
  const startedAt = performance.now();
  const ok = await redis.set(key, value, { nx: true, ex: LOCK_TTL_SECONDS });
  if (ok !== 'OK') return null;

  return {
    signal: AbortSignal.timeout(WORK_BUDGET_MS),
    expired: () => performance.now() - startedAt > WORK_BUDGET_MS,
    async release() {
      // only release if we still own it
      const current = await redis.get<string>(key);
      if (current === value) {
        await redis.del(key);
      }
    },
  };
}

/** A voucher has a limited number of uses, e.g. "first 100 customers". */
export async function redeemVoucher(store: VoucherStore, code: string, userId: string) {
  const lock = await acquireLock(code);
  if (!lock) return { ok: false as const, reason: 'BUSY' };

  try {
    const voucher = await store.find(code, lock.signal);
    if (!voucher) return { ok: false as const, reason: 'UNKNOWN' };
    if (voucher.left <= 0) return { ok: false as const, reason: 'USED_UP' };

    if (lock.expired()) return { ok: false as const, reason: 'TIMEOUT' };
    await store.consume(code, voucher.left - 1, userId, lock.signal);
    return { ok: true as const, left: voucher.left - 1 };
  } finally {
    await lock.release().catch((err) => console.error('voucher lock', code, err));
  }
}
