import { randomUUID } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import pino from 'pino';

const log = pino({ name: 'lease' });

const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export interface LeaseOptions {
  ttlMs: number;
  /** How long to queue for the resource before giving up. 0 = one attempt. */
  waitMs?: number;
  pollMs?: number;
}

export class LeaseUnavailable extends Error {}
export class LeaseLost extends Error {}

const margin = (ttlMs: number) => Math.ceil(ttlMs * 0.05) + 10;

async function acquire(redis: Redis, key: string, token: string, o: LeaseOptions): Promise<number> {
  const giveUpAt = performance.now() + (o.waitMs ?? 0);
  for (;;) {
    const sentAt = performance.now();
    const reply = await redis.set(key, token, 'PX', o.ttlMs, 'NX');
    if (reply === 'OK') {
      const validUntil = sentAt + o.ttlMs - margin(o.ttlMs);
      if (validUntil > performance.now()) return validUntil;
      // the reply sat in the socket for too long to be of any use
      await redis.eval(RELEASE, 1, key, token);
    }
    if (performance.now() >= giveUpAt) throw new LeaseUnavailable(`${key} is held elsewhere`);
    await sleep((o.pollMs ?? 150) * (0.5 + Math.random()));
  }
}

/**
 * Runs `work` while holding the lease on `resource`. The lease is kept alive in the
 * background. `signal` aborts when it could not be; pass it on to whatever you await.
 */
export async function withLease<T>(
  redis: Redis,
  resource: string,
  options: LeaseOptions,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (!Number.isInteger(options.ttlMs) || options.ttlMs < 500) {
    throw new RangeError('ttlMs must be an integer of at least 500');
  }
  const key = `lease:${resource}`;
  const token = randomUUID();
  let validUntil = await acquire(redis, key, token, options);

  const controller = new AbortController();
  let closed = false;
  let deadline: NodeJS.Timeout | undefined;
  let heartbeat: NodeJS.Timeout | undefined;

  const lose = (why: string) => {
    if (closed || controller.signal.aborted) return;
    log.error({ key, why }, 'lease lost');
    clearInterval(heartbeat);
    clearTimeout(deadline);
    controller.abort(new LeaseLost(`${key}: ${why}`));
  };

  const arm = () => {
    clearTimeout(deadline);
    if (closed || controller.signal.aborted) return;
    deadline = setTimeout(() => lose('not renewed in time'), Math.max(0, validUntil - performance.now()));
  };

  const renew = async () => {
    const sentAt = performance.now();
    try {
      const kept = await redis.eval(RENEW, 1, key, token, options.ttlMs);
      if (kept !== 1) return lose('no longer ours');
      validUntil = Math.max(validUntil, sentAt + options.ttlMs - margin(options.ttlMs));
      arm();
    } catch (err) {
      // the deadline timer decides; there is time for another beat or two
      log.warn({ key, err }, 'lease renewal failed');
    }
  };

  heartbeat = setInterval(renew, Math.floor(options.ttlMs / 3));
  arm();
  try {
    const result = await work(controller.signal);
    controller.signal.throwIfAborted();
    return result;
  } finally {
    closed = true;
    clearInterval(heartbeat);
    clearTimeout(deadline);
    await redis.eval(RELEASE, 1, key, token).catch((err) => log.warn({ key, err }, 'lease release failed'));
  }
}
