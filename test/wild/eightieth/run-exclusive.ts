import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class LeaseLostError extends Error {
  override name = 'LeaseLostError';
}

export class LeaseBusyError extends Error {
  override name = 'LeaseBusyError';
}

export interface ExclusiveOptions {
  ttlMs?: number;
  waitMs?: number;
}

export function createExclusive(redis: Redis, prefix = 'excl:') {
  return async function runExclusive<T>(
    name: string,
    work: (signal: AbortSignal) => Promise<T>,
    { ttlMs = 15_000, waitMs = 5_000 }: ExclusiveOptions = {},
  ): Promise<T> {
    const key = prefix + name;
    const token = randomUUID();
    const margin = Math.ceil(ttlMs * 0.1);
    const giveUpAt = performance.now() + waitMs;
    let validUntil = 0;

    const release = async () => {
      try {
        await redis.eval(RELEASE, 1, key, token);
      } catch (err) {
        console.warn(`release of ${key} failed, it expires by itself`, err);
      }
    };

    for (;;) {
      const sentAt = performance.now();
      const reply = await redis.set(key, token, 'PX', ttlMs, 'NX');
      if (reply === 'OK') {
        validUntil = sentAt + ttlMs - margin;
        if (performance.now() < validUntil) break;
        await release();
      }
      if (performance.now() >= giveUpAt) throw new LeaseBusyError(name);
      await sleep(50 + Math.random() * 100);
    }

    const controller = new AbortController();
    const lose = () => controller.abort(new LeaseLostError(name));
    let watchdog = setTimeout(lose, validUntil - performance.now());
    let finished = false;
    let pulse: NodeJS.Timeout | undefined;

    const beat = async () => {
      const sentAt = performance.now();
      try {
        const kept = await redis.eval(EXTEND, 1, key, token, ttlMs);
        if (finished || controller.signal.aborted) return;
        if (kept !== 1) return lose();
        clearTimeout(watchdog);
        watchdog = setTimeout(lose, Math.max(0, sentAt + ttlMs - margin - performance.now()));
      } catch (err) {
        console.warn(`extension of ${key} failed, trying again`, err);
      }
      if (!finished && !controller.signal.aborted) pulse = setTimeout(beat, ttlMs / 4);
    };
    pulse = setTimeout(beat, ttlMs / 4);

    try {
      const result = await work(controller.signal);
      controller.signal.throwIfAborted();
      return result;
    } finally {
      finished = true;
      clearTimeout(pulse);
      clearTimeout(watchdog);
      await release();
    }
  };
}

export interface Payout { id: string; amount: number; account: string }
export interface PayoutStore {
  nextPending(): Promise<Payout | undefined>;
  markSent(id: string, reference: string): Promise<void>;
}
export interface Bank {
  transfer(p: Payout, opts: { idempotencyKey: string; signal: AbortSignal }): Promise<string>;
}

export async function drainPayouts(redis: Redis, store: PayoutStore, bank: Bank): Promise<number> {
  return createExclusive(redis)('payouts', async (signal) => {
    let sent = 0;
    for (let p = await store.nextPending(); p; p = await store.nextPending()) {
      signal.throwIfAborted();
      const reference = await bank.transfer(p, { idempotencyKey: `payout-${p.id}`, signal });
      await store.markSent(p.id, reference);
      sent++;
    }
    return sent;
  });
}
