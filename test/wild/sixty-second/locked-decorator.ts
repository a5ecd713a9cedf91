import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 2_000, maxRetriesPerRequest: 1 });
redis.on('error', (err) => console.error('[redis]', err.message));

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const EXTEND = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;

export class LockedError extends Error {
  constructor(readonly key: string) {
    super(`${key} is locked`);
  }
}

interface Lease {
  signal: AbortSignal;
  release(): Promise<void>;
}

async function acquire(key: string, ttl: number): Promise<Lease | null> {
  const token = randomUUID();
  let sentAt = performance.now();
  if ((await redis.set(key, token, 'PX', ttl, 'NX')) !== 'OK') return null;

  const ac = new AbortController();
  let released = false;
  let deadline: NodeJS.Timeout;
  const arm = () => {
    clearTimeout(deadline);
    const left = sentAt + ttl * 0.85 - performance.now();
    deadline = setTimeout(() => ac.abort(new Error(`lost ${key}`)), Math.max(0, left));
  };
  arm();

  const heartbeat = setInterval(async () => {
    const at = performance.now();
    try {
      const ok = await redis.eval(EXTEND, 1, key, token, ttl);
      if (released || ac.signal.aborted) return;
      if (ok === 1) {
        sentAt = at;
        arm();
      } else {
        ac.abort(new Error(`lost ${key}`));
      }
    } catch (err) {
      console.warn('extending %s: %s', key, (err as Error).message);
    }
  }, ttl / 4);

  return {
    signal: ac.signal,
    async release() {
      released = true;
      clearInterval(heartbeat);
      clearTimeout(deadline);
      await redis
        .eval(RELEASE, 1, key, token)
        .catch((err) => console.warn('releasing %s: %s', key, err.message));
    },
  };
}

const scope = new AsyncLocalStorage<AbortSignal>();

/** Aborts when the lock of the surrounding @Locked method is lost. */
export const lockSignal = (): AbortSignal => {
  const signal = scope.getStore();
  if (!signal) throw new Error('lockSignal() outside of a @Locked method');
  return signal;
};

interface LockedOptions<A extends unknown[]> {
  key: string | ((...args: A) => string);
  ttl?: number;
}

/**
 * Method decorator: one call at a time per key, over all instances of the service.
 *
 * @example
 *   @Locked({ key: (orderId: string) => `order:${orderId}` })
 *   async ship(orderId: string) { ... }
 */
export function Locked<A extends unknown[]>({ key, ttl = 20_000 }: LockedOptions<A>) {
  return function <This, R>(
    method: (this: This, ...args: A) => Promise<R>,
    _context: ClassMethodDecoratorContext,
  ) {
    return async function (this: This, ...args: A): Promise<R> {
      const lockKey = `lock:${typeof key === 'function' ? key(...args) : key}`;
      const lease = await acquire(lockKey, ttl);
      if (!lease) throw new LockedError(lockKey);
      try {
        return scope.run(lease.signal, () => method.apply(this, args));
      } finally {
        await lease.release();
      }
    };
  };
}

export class Shipping {
  constructor(private readonly db: any, private readonly carrier: any) {}

  @Locked({ key: (orderId: string) => `order:${orderId}` })
  async ship(orderId: string): Promise<string> {
    const signal = lockSignal();
    const order = await this.db.orders.findById(orderId);
    if (order.trackingCode) return order.trackingCode;
    const label = await this.carrier.buyLabel(order.address, { signal });
    await this.db.orders.update(orderId, { trackingCode: label.code });
    return label.code;
  }
}
