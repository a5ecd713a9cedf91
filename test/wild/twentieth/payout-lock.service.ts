import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const EXTEND = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

export class PayoutBusyError extends Error {}
export class PayoutLockLostError extends Error {}

export interface PayoutLockOptions {
  ttlMs?: number;
  waitMs?: number;
}

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

/**
 * Serialises payout runs per merchant. The holder renews its key while it is
 * working; as soon as ownership cannot be proven any more the signal fires and
 * the payout has to stop before the next transfer.
 */
export class PayoutLockService {
  constructor(private readonly redis: Redis) {}

  async withLock<T>(
    merchantId: string,
    work: (signal: AbortSignal) => Promise<T>,
    { ttlMs = 15_000, waitMs = 5_000 }: PayoutLockOptions = {},
  ): Promise<T> {
    const key = `payout:lock:${merchantId}`;
    const token = randomUUID(); // one token per call, never shared
    const margin = Math.ceil(ttlMs * 0.01) + 5;
    const giveUpAt = performance.now() + waitMs;

    let validUntil = 0;
    for (;;) {
      // the clock starts before the command leaves this process
      const askedAt = performance.now();
      let reply: 'OK' | null;
      try {
        reply = await this.redis.set(key, token, 'PX', ttlMs, 'NX');
      } catch (err) {
        // the reply may be lost although the write went through
        await this.release(key, token).catch(() => undefined);
        throw err;
      }
      if (reply === 'OK') {
        validUntil = askedAt + ttlMs - margin;
        if (performance.now() < validUntil) break;
      }
      // late grant, or a resent SET that met its own first copy
      await this.release(key, token);
      if (performance.now() >= giveUpAt) throw new PayoutBusyError(`payout for ${merchantId} is running elsewhere`);
      await sleep(50 + Math.random() * 100);
    }

    const lost = new AbortController();
    const lose = () => lost.abort(new PayoutLockLostError(`lock for ${merchantId} was lost`));
    let expiry = setTimeout(lose, validUntil - performance.now());
    let renewing = false;
    let stopped = false;

    const renewal = setInterval(async () => {
      if (renewing || lost.signal.aborted) return;
      renewing = true;
      const askedAt = performance.now();
      try {
        const extended = await this.redis.eval(EXTEND, 1, key, token, ttlMs);
        if (stopped || lost.signal.aborted) return;
        if (extended !== 1) return lose();
        validUntil = askedAt + ttlMs - margin;
        clearTimeout(expiry);
        expiry = setTimeout(lose, Math.max(0, validUntil - performance.now()));
      } catch {
        // keep going; the expiry timer ends the work if no renewal succeeds in time
      } finally {
        renewing = false;
      }
    }, Math.floor(ttlMs / 3));

    try {
      const result = await work(lost.signal);
      if (performance.now() >= validUntil) lose();
      lost.signal.throwIfAborted();
      return result;
    } finally {
      stopped = true;
      clearInterval(renewal);
      clearTimeout(expiry);
      // the TTL frees the key if Redis cannot be reached right now
      await this.release(key, token).catch(() => undefined);
    }
  }

  private release(key: string, token: string) {
    return this.redis.eval(RELEASE, 1, key, token);
  }
}
