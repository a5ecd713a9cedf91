import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('exclusive: redis error', err));
const connected = client.connect();

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const PROLONG = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

export interface ExclusiveOptions<A extends unknown[]> {
  key: string | ((...args: A) => string);
  /** milliseconds, prolonged while the method runs */
  ttl?: number;
}

export class AlreadyRunningError extends Error {
  constructor(public readonly lock: string) {
    super(`"${lock}" is already running`);
    this.name = 'AlreadyRunningError';
  }
}

/**
 * Only one call of the decorated async method at a time, cluster-wide.
 *
 *   @Exclusive({ key: (tenantId) => `billing:${tenantId}` })
 *   async closeMonth(tenantId: string) { ... }
 */
export function Exclusive<A extends unknown[]>(options: ExclusiveOptions<A>) {
  const ttl = options.ttl ?? 30_000;

  return function (_target: object, _name: string, descriptor: PropertyDescriptor) {
    const original: (...args: A) => Promise<unknown> = descriptor.value;

    descriptor.value = async function (this: unknown, ...args: A) {
      await connected;
      const key = `excl:${typeof options.key === 'function' ? options.key(...args) : options.key}`;
      const token = randomUUID();

      const reply = await client.set(key, token, { NX: true, PX: ttl });
      if (reply !== 'OK') {
        throw new AlreadyRunningError(key);
      }

      const timer = setInterval(() => {
        client
          .eval(PROLONG, { keys: [key], arguments: [token, String(ttl)] })
          .then((kept) => {
            if (kept !== 1) console.error(`exclusive: lost ${key} while still running`);
          })
          .catch((err) => console.error(`exclusive: could not prolong ${key}`, err));
      }, ttl / 3);

      try {
        return original.apply(this, args);
      } finally {
        clearInterval(timer);
        await client.eval(UNLOCK, { keys: [key], arguments: [token] });
      }
    };

    return descriptor;
  };
}
