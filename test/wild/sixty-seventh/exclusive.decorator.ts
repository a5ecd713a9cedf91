import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

let shared: Redis | undefined;

function client(): Redis {
  return (shared ??= new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379'));
}

/** Identifies us as the owner of a lock; it must never match another instance. */
const OWNER = `${process.env.HOSTNAME ?? 'local'}:${randomUUID()}`;

const RELEASE = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

export interface ExclusiveOptions<A extends unknown[]> {
  /** Name of the lock, or a function of the arguments of the method. */
  key: string | ((...args: A) => string);
  /** Time to live in milliseconds. The method's signal is aborted at 80% of it. */
  ttl: number;
  /** What to do if the lock is taken. Default: throw. */
  onBusy?: 'throw' | 'skip';
}

export class ResourceBusyError extends Error {
  constructor(readonly key: string) {
    super(`"${key}" is locked by another caller`);
    this.name = 'ResourceBusyError';
  }
}

/**
 * Method decorator: at most one call per key at a time, over all instances.
 * The decorated method gets an AbortSignal as its last argument and has to stop
 * starting new work once it is aborted.
 *
 * @example
 *   class Subscriptions {
 *     @Exclusive({ key: (id: string) => `sub:${id}`, ttl: 20_000 })
 *     async renew(id: string, signal?: AbortSignal) { ... }
 *   }
 */
export function Exclusive<This, A extends unknown[], R>(options: ExclusiveOptions<any>) {
  const { ttl, onBusy = 'throw' } = options;

  return function (
    method: (this: This, ...args: A) => Promise<R>,
    context: ClassMethodDecoratorContext<This, (this: This, ...args: A) => Promise<R>>,
  ) {
    const suffix = String(context.name);

    return async function (this: This, ...args: A): Promise<R> {
      const name = typeof options.key === 'function' ? options.key(...args) : options.key;
      const key = `exclusive:${suffix}:${name}`;

      const sentAt = Date.now();
      const acquired = await client().set(key, OWNER, 'PX', ttl, 'NX');
      if (acquired !== 'OK') {
        if (onBusy === 'skip') return undefined as R;
        throw new ResourceBusyError(key);
      }

      const left = Math.max(0, Math.floor(sentAt + ttl * 0.8 - Date.now()));
      const signal = AbortSignal.timeout(left);
      try {
        return await method.call(this, ...([...args, signal] as unknown as A));
      } finally {
        try {
          await client().eval(RELEASE, 1, key, OWNER);
        } catch (err) {
          console.warn(`could not release ${key}, it expires within ${ttl} ms`, err);
        }
      }
    };
  };
}

export async function closeExclusive(): Promise<void> {
  await shared?.quit();
  shared = undefined;
}

// --- example ---------------------------------------------------------------

interface Gateway {
  dueItems(id: string): Promise<string[]>;
  /** Idempotent per item; rolls back when aborted, which can take a while. */
  bill(item: string, signal?: AbortSignal): Promise<void>;
}

export class Subscriptions {
  constructor(private readonly gateway: Gateway) {}

  @Exclusive({ key: (id: string) => `subscription:${id}`, ttl: 20_000 })
  async renew(id: string, signal?: AbortSignal): Promise<number> {
    const items = await this.gateway.dueItems(id);
    for (const item of items) {
      signal?.throwIfAborted();
      await this.gateway.bill(item, signal);
    }
    return items.length;
  }
}
