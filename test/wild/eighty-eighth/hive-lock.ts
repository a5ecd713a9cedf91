import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export interface HiveLockOptions {
  ttlMs?: number;
  waitMs?: number;
  retryMs?: number;
}

export class HiveBusy extends Error {}
export class HiveLockLost extends Error {}

const MARGIN_MS = 500;

export async function withHiveLock<T>(
  redis: Redis,
  hiveId: string,
  fn: (signal: AbortSignal) => Promise<T>,
  { ttlMs = 12_000, waitMs = 5_000, retryMs = 150 }: HiveLockOptions = {},
): Promise<T> {
  const key = `apiary:hive:${hiveId}:lock`;
  const token = randomUUID();
  const ctl = new AbortController();
  let expiry: NodeJS.Timeout | undefined;
  let pulse: NodeJS.Timeout | undefined;

  const stop = () => {
    clearTimeout(expiry);
    clearInterval(pulse);
  };
  const lose = () => {
    stop();
    ctl.abort(new HiveLockLost(key));
  };
  const arm = (validUntil: number) => {
    clearTimeout(expiry);
    expiry = setTimeout(lose, Math.max(0, validUntil - performance.now()));
  };

  arm(await acquire(redis, key, token, { ttlMs, waitMs, retryMs }));
  let done = false;
  pulse = setInterval(async () => {
    const sentAt = performance.now();
    try {
      const ok = await redis.eval(EXTEND, 1, key, token, ttlMs);
      if (done || ctl.signal.aborted) return;
      if (ok === 1) arm(sentAt + ttlMs - MARGIN_MS);
      else lose();
    } catch {
      // transient; the expiry timer has the last word
    }
  }, ttlMs / 3);

  try {
    const out = await fn(ctl.signal);
    ctl.signal.throwIfAborted();
    return out;
  } finally {
    done = true;
    stop();
    await redis.eval(RELEASE, 1, key, token).catch(() => {});
  }
}

async function acquire(redis: Redis, key: string, token: string, o: Required<HiveLockOptions>): Promise<number> {
  const giveUpAt = performance.now() + o.waitMs;
  for (;;) {
    const validUntil = performance.now() + o.ttlMs - MARGIN_MS;
    if ((await redis.set(key, token, 'PX', o.ttlMs, 'NX')) === 'OK') {
      if (performance.now() < validUntil) return validUntil;
      await redis.eval(RELEASE, 1, key, token);
    }
    if (performance.now() >= giveUpAt) throw new HiveBusy(key);
    await sleep(o.retryMs * (0.5 + Math.random()));
  }
}

const EXTEND = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
