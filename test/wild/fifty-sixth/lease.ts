import { performance } from 'node:perf_hooks';
import Redis, { type Result } from 'ioredis';
import { ulid } from 'ulid';
import { leaseHeld, leaseLost, leaseRenewals } from './metrics';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    renewLease(key: string, token: string, ttlMs: number): Result<number, Context>;
    dropLease(key: string, token: string): Result<number, Context>;
  }
}

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', {
  commandTimeout: 1_000,
  maxRetriesPerRequest: 1,
});

redis.defineCommand('renewLease', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('pexpire', KEYS[1], ARGV[2])
    end
    return 0`,
});

redis.defineCommand('dropLease', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('del', KEYS[1])
    end
    return 0`,
});

const TTL_MS = 15_000;
const BEAT_MS = 4_000;

export interface Lease {
  /** Aborted when the lease could not be kept. Long jobs must watch it. */
  readonly signal: AbortSignal;
  validFor(): number;
}

/** null when the name is taken */
export async function underLease<T>(name: string, job: (lease: Lease) => Promise<T>): Promise<T | null> {
  const key = `lease:${name}`;
  const token = ulid();
  const askedAt = performance.now();
  const granted = await redis.set(key, token, 'PX', TTL_MS, 'NX');
  if (granted !== 'OK') return null;

  const ctrl = new AbortController();
  let validUntil = askedAt + TTL_MS;
  leaseHeld.inc({ name });

  const beat = setInterval(async () => {
    const sentAt = performance.now();
    try {
      await redis.renewLease(key, token, TTL_MS);
      validUntil = sentAt + TTL_MS;
      leaseRenewals.inc({ name });
    } catch (err) {
      clearInterval(beat);
      validUntil = 0;
      leaseLost.inc({ name });
      ctrl.abort(err);
    }
  }, BEAT_MS);

  try {
    return await job({
      signal: ctrl.signal,
      validFor: () => Math.max(0, validUntil - performance.now()),
    });
  } finally {
    clearInterval(beat);
    leaseHeld.dec({ name });
    // an error here must not hide the job's own; the key runs out by itself
    await redis.dropLease(key, token).catch(() => undefined);
  }
}
