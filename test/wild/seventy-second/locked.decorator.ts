import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('redis', err));
const ready = client.connect();

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

export interface LockedOptions {
  /** Lock name, or a function that makes it from the call's arguments. */
  key: string | ((...args: any[]) => string);
  ttl?: number;
  retries?: number;
  retryDelay?: number;
}

const sleep = (ms: number) => new Promise((r) => setTimeout(r, ms));

/**
 * Method decorator: only one call per key runs at a time, across all instances
 * of the service.
 *
 * @example
 * class WalletService {
 *   \@Locked({ key: (id: string) => `wallet:${id}`, ttl: 60_000 })
 *   async topUp(id: string, amount: number) { ... }
 * }
 */
export function Locked(options: LockedOptions) {
  const { key, ttl = 60_000, retries = 50, retryDelay = 200 } = options;

  return function (_target: object, property: string | symbol, descriptor: PropertyDescriptor) {
    const original = descriptor.value as (...args: any[]) => Promise<unknown>;

    descriptor.value = async function (this: unknown, ...args: any[]) {
      await ready;
      const name = `lock:${typeof key === 'function' ? key(...args) : key}`;
      const token = randomUUID();

      let acquired = false;
      for (let attempt = 0; attempt <= retries && !acquired; attempt++) {
        if (attempt > 0) await sleep(retryDelay + Math.random() * retryDelay);
        acquired = (await client.set(name, token, { NX: true, PX: ttl })) === 'OK';
      }
      if (!acquired) {
        throw new Error(`${String(property)}: could not lock ${name}`);
      }

      try {
        return original.apply(this, args);
      } finally {
        try {
          await client.eval(UNLOCK, { keys: [name], arguments: [token] });
        } catch (err) {
          console.error(`could not release ${name}, it expires within ${ttl} ms`, err);
        }
      }
    };

    return descriptor;
  };
}
