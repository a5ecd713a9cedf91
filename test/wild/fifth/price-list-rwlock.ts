import Redis from 'ioredis';
import { randomUUID } from 'node:crypto';

const ENTER_SHARED = `
if redis.call('exists', KEYS[2]) == 1 then return 0 end
redis.call('incr', KEYS[1])
redis.call('pexpire', KEYS[1], ARGV[1])
return 1`;

const LEAVE_SHARED = `return redis.call('decr', KEYS[1])`;

const ENTER_EXCLUSIVE = `
if tonumber(redis.call('get', KEYS[1]) or '0') > 0 then return 0 end
if redis.call('set', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0`;

const LEAVE_EXCLUSIVE = `
if redis.call('get', KEYS[2]) == ARGV[1] then return redis.call('del', KEYS[2]) end
return 0`;

export type Mode = 'shared' | 'exclusive';

export interface PriceListLockDeps {
  redis: Redis;
  log?: Pick<Console, 'warn' | 'info'>;
}

/**
 * Quotes read a price list (shared), the nightly upload replaces it (exclusive). A quote must
 * never see half of an old and half of a new list.
 */
export function priceListLock({ redis, log = console }: PriceListLockDeps) {
  const HOLD_MS = 20_000;
  const RESERVE_MS = 2_000;
  const keysOf = (list: string) => [`{prices:${list}}:readers`, `{prices:${list}}:writer`] as const;

  async function enter(mode: Mode, list: string, token: string): Promise<boolean> {
    const [readers, writer] = keysOf(list);
    const reply =
      mode === 'shared'
        ? await redis.eval(ENTER_SHARED, 2, readers, writer, HOLD_MS)
        : await redis.eval(ENTER_EXCLUSIVE, 2, readers, writer, token, HOLD_MS);
    return reply === 1;
  }

  async function leave(mode: Mode, list: string, token: string): Promise<void> {
    const [readers, writer] = keysOf(list);
    try {
      if (mode === 'shared') await redis.eval(LEAVE_SHARED, 1, readers);
      else await redis.eval(LEAVE_EXCLUSIVE, 2, readers, writer, token);
    } catch (err) {
      log.warn(`price list ${list}: leaving ${mode} failed: ${(err as Error).message}`);
    }
  }

  return async function locked<T>(
    mode: Mode,
    list: string,
    fn: (signal: AbortSignal) => Promise<T>,
    patienceMs = 8_000,
  ): Promise<T> {
    const token = randomUUID();
    const until = performance.now() + patienceMs;
    let asked = performance.now();

    while (!(await enter(mode, list, token))) {
      if (performance.now() > until) throw new Error(`price list ${list} is in use`);
      await new Promise((r) => setTimeout(r, 80 + Math.random() * 120));
      asked = performance.now();
    }
    try {
      const ms = Math.max(0, Math.floor(asked + HOLD_MS - RESERVE_MS - performance.now()));
      return await fn(AbortSignal.timeout(ms));
    } finally {
      await leave(mode, list, token);
    }
  };
}

export interface PriceRows {
  read(list: string, sku: string, signal: AbortSignal): Promise<number>;
  replace(list: string, rows: Map<string, number>, o: { timeoutMs: number }): Promise<void>;
}

type Locked = ReturnType<typeof priceListLock>;

export const quote = (locked: Locked, rows: PriceRows, list: string, skus: string[]) =>
  locked('shared', list, async (signal) => {
    const lines: { sku: string; cents: number }[] = [];
    for (const sku of skus) {
      signal.throwIfAborted();
      lines.push({ sku, cents: await rows.read(list, sku, signal) });
    }
    return lines;
  });

export const upload = (locked: Locked, rows: PriceRows, list: string, fresh: Map<string, number>) =>
  locked('exclusive', list, () => rows.replace(list, fresh, { timeoutMs: 15_000 }), 60_000);
