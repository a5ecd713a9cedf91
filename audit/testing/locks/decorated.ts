import type { Redis } from 'ioredis';

type Method = (...given: unknown[]) => Promise<unknown>;

/** Decorates methods, in the way of before decorators were a standard. */
export function exclusive(redis: Redis, key: string, ttlMs: number) {
  return (_prototype: object, _name: string, descriptor: TypedPropertyDescriptor<Method>): void => {
    const method = descriptor.value;
    descriptor.value = async function (...given) {
      if ((await redis.set(key, '1', 'PX', ttlMs, 'NX')) !== 'OK') throw new Error(`${key} is locked`);
      try {
        return await method?.apply(this, given);
      } finally {
        await redis.del(key);
      }
    };
  };
}
