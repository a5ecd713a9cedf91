import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

export interface LeaseLogger {
  debug(fields: object, msg: string): void;
  warn(fields: object, msg: string): void;
}

export interface LeaseConfig {
  redis: Redis;
  logger: LeaseLogger;
  /** How long the key lives in Redis without a renewal. */
  ttlMs: number;
  /** Subtracted from every deadline on this side (clock drift, scheduling). */
  marginMs: number;
  /** How long to wait for a busy lock. */
  waitMs: number;
}

export interface Lease {
  /** Aborts as soon as the lease can no longer be relied upon. */
  readonly signal: AbortSignal;
  /** Call before each effect with an upper bound of its duration; throws if the lease may end sooner. */
  ensure(forMs: number): void;
}

export class LockBusyError extends Error {
  override name = 'LockBusyError';
}
export class LeaseLostError extends Error {
  override name = 'LeaseLostError';
}

const RELEASE = `
  if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end
  return 0`;
const EXTEND = `
  if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end
  return 0`;

export function createWithLease({ redis, logger, ttlMs, marginMs, waitMs }: LeaseConfig) {
  if (marginMs * 3 > ttlMs) throw new RangeError('marginMs must be at most a third of ttlMs');

  async function release(key: string, token: string): Promise<void> {
    try {
      await redis.eval(RELEASE, 1, key, token);
    } catch (err) {
      logger.warn({ err, key }, 'release failed, key will expire');
    }
  }

  /** Resolves to the local time (performance.now) until which the key is certainly ours. */
  async function acquire(key: string, token: string): Promise<number> {
    const giveUpAt = performance.now() + waitMs;
    for (;;) {
      const sentAt = performance.now();
      let reply: 'OK' | null;
      try {
        reply = await redis.set(key, token, 'PX', ttlMs, 'NX');
      } catch (err) {
        await release(key, token);
        throw err;
      }
      if (reply === 'OK') {
        const validUntil = sentAt + ttlMs - marginMs;
        if (performance.now() < validUntil) return validUntil;
        logger.warn({ key }, 'reply came too late to be of use');
        await release(key, token);
      }
      if (performance.now() >= giveUpAt) throw new LockBusyError(`${key} is held elsewhere`);
      await sleep(80 + Math.random() * 80);
    }
  }

  return async function withLease<T>(name: string, fn: (lease: Lease) => Promise<T>): Promise<T> {
    const key = `lease:${name}`;
    const token = randomUUID();
    let validUntil = await acquire(key, token);

    const lost = new AbortController();
    const done = new AbortController();
    const lose = (why: string) => {
      if (lost.signal.aborted || done.signal.aborted) return;
      logger.warn({ key, why }, 'lease lost');
      lost.abort(new LeaseLostError(`${key}: ${why}`));
    };
    const armExpiry = () =>
      setTimeout(lose, Math.max(0, validUntil - performance.now()), 'not renewed in time');
    let expiry = armExpiry();

    const renew = async () => {
      while (!lost.signal.aborted) {
        await sleep(ttlMs / 4, undefined, { signal: done.signal });
        const sentAt = performance.now();
        try {
          const kept = await redis.eval(EXTEND, 1, key, token, ttlMs);
          if (done.signal.aborted || lost.signal.aborted) return;
          if (kept !== 1) return lose('key is gone or belongs to someone else');
          validUntil = sentAt + ttlMs - marginMs;
          clearTimeout(expiry);
          expiry = armExpiry();
        } catch (err) {
          // The expiry timer goes on running; another round may still make it.
          logger.warn({ err, key }, 'renewal failed');
        }
      }
    };
    renew().catch(() => {}); // only the aborted sleep ends up here

    const ensure = (forMs: number) => {
      lost.signal.throwIfAborted();
      if (performance.now() + forMs >= validUntil) {
        throw new LeaseLostError(`${key}: less than ${forMs} ms left`);
      }
    };

    try {
      const result = await fn({ signal: lost.signal, ensure });
      ensure(0);
      logger.debug({ key }, 'lease done');
      return result;
    } finally {
      done.abort();
      clearTimeout(expiry);
      await release(key, token);
    }
  };
}
