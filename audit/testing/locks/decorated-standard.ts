import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

type Method = (...given: unknown[]) => Promise<unknown>;
type Decorator = (method: Method, context: ClassMethodDecoratorContext) => Method;

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

export function exclusive(redis: Redis, key: string, ttlMs: number): Decorator {
  return (method, { name }) =>
    async function (this: unknown, ...given: unknown[]): Promise<unknown> {
      const token = randomUUID();
      if ((await redis.set(key, token, 'PX', ttlMs, 'NX')) !== 'OK') throw new Error(`${String(name)} is running`);
      try {
        return await method.apply(this, given);
      } finally {
        await redis.eval(RELEASE, 1, key, token);
      }
    };
}
