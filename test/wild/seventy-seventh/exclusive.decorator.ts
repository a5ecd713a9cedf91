import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

/** Anything that carries a node-redis client can use {@link Exclusive}. */
export interface LockHost {
  readonly redis: RedisClientType;
}

export interface ExclusiveOptions<Args extends unknown[]> {
  /** Derives the lock name from the arguments of the call. */
  key: (...args: Args) => string;
  /** Lease in seconds, renewed while the method runs. @default 20 */
  leaseSeconds?: number;
  /** How long to wait for the lock, in seconds. @default 5 */
  waitSeconds?: number;
}

export class ExclusiveTimeoutError extends Error {
  constructor(readonly key: string) {
    super(`Gave up waiting for "${key}"`);
    this.name = 'ExclusiveTimeoutError';
  }
}

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

const leaseSignal = new AsyncLocalStorage<AbortSignal>();

/** Inside an exclusive method: aborted when the lease could not be kept. */
export function currentLeaseSignal(): AbortSignal | undefined {
  return leaseSignal.getStore();
}

async function acquire(redis: RedisClientType, key: string, token: string, leaseMs: number, waitMs: number) {
  const giveUpAt = Date.now() + waitMs;
  while ((await redis.set(key, token, { NX: true, PX: leaseMs })) !== 'OK') {
    if (Date.now() >= giveUpAt) throw new ExclusiveTimeoutError(key);
    await sleep(50 + Math.random() * 100);
  }
}

/**
 * Method decorator: only one call per key runs at a time, over all instances of the service.
 *
 * ```ts
 * class PermitService implements LockHost {
 *   @Exclusive({ key: (permitId: string) => `permit:${permitId}` })
 *   async issue(permitId: string): Promise<Permit> { ... }
 * }
 * ```
 */
export function Exclusive<This extends LockHost, Args extends unknown[], Result>(
  options: ExclusiveOptions<Args>,
) {
  const leaseMs = (options.leaseSeconds ?? 20) * 1000;
  const waitMs = (options.waitSeconds ?? 5) * 1000;

  return function (
    original: (this: This, ...args: Args) => Promise<Result>,
    _context: ClassMethodDecoratorContext<This>,
  ) {
    return async function (this: This, ...args: Args): Promise<Result> {
      const { redis } = this;
      const key = `exclusive:${options.key(...args)}`;
      const token = randomUUID();
      const lost = new AbortController();

      await acquire(redis, key, token, leaseMs, waitMs);
      let validUntil = Date.now() + leaseMs * 0.9;

      const renewal = setInterval(async () => {
        const sentAt = Date.now();
        const renewed = await redis
          .eval(RENEW, { keys: [key], arguments: [token, String(leaseMs)] })
          .catch(() => undefined);
        if (renewed === 1) validUntil = sentAt + leaseMs * 0.9;
        if (renewed === 0 || Date.now() > validUntil) lost.abort();
      }, leaseMs / 4);

      try {
        return leaseSignal.run(lost.signal, () => original.apply(this, args));
      } finally {
        clearInterval(renewal);
        await redis.eval(RELEASE, { keys: [key], arguments: [token] }).catch(() => undefined);
      }
    };
  };
}
