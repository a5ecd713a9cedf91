import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

let shared: Redis | undefined;
const redis = (): Redis => (shared ??= new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379'));

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

export class AlreadyRunningError extends Error {
  constructor(key: string) {
    super(`${key} is already running`);
    this.name = 'AlreadyRunningError';
  }
}

export interface ExclusiveOptions<Args extends unknown[]> {
  /** key of the lock, may depend on the arguments */
  key: string | ((...args: Args) => string);
  ttlMs?: number;
}

/**
 * Method decorator: the method runs on one instance at a time.
 *
 *   class InvoiceService {
 *     @Exclusive({ key: (customerId: string) => `invoices:${customerId}`, ttlMs: 60_000 })
 *     async createMonthly(customerId: string) { ... }
 *   }
 */
export function Exclusive<Args extends unknown[]>({ key, ttlMs = 30_000 }: ExclusiveOptions<Args>) {
  return function <This, R>(
    method: (this: This, ...args: Args) => Promise<R>,
    _context: ClassMethodDecoratorContext,
  ) {
    return async function (this: This, ...args: Args): Promise<R> {
      const name = `exclusive:${typeof key === 'function' ? key(...args) : key}`;
      const token = randomUUID();

      const acquired = await redis().set(name, token, 'PX', ttlMs, 'NX');
      if (acquired !== 'OK') throw new AlreadyRunningError(name);

      try {
        return method.apply(this, args);
      } finally {
        await redis().eval(RELEASE, 1, name, token);
      }
    };
  };
}
