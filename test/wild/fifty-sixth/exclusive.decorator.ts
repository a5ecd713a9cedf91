import { randomUUID } from 'node:crypto';
import { ConflictException, Inject, Logger } from '@nestjs/common';
import type { Redis } from 'ioredis';

export const REDIS_CLIENT = Symbol('REDIS_CLIENT');

export interface ExclusiveOptions {
  /** Lock name, or a function that makes one from the method's arguments. */
  key: string | ((...args: any[]) => string);
  /** How long the lock lives. Has to be longer than the method can possibly take. */
  ttlMs: number;
  /** What to do if somebody else is in there: 409 (default) or silently skip. */
  onBusy?: 'throw' | 'skip';
}

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const logger = new Logger('Exclusive');

/**
 * Only one execution of the method at a time, over all instances of the service.
 *
 *   @Exclusive({ key: (tenantId: string) => `reindex:${tenantId}`, ttlMs: 120_000 })
 *   async reindex(tenantId: string) { ... }
 */
export function Exclusive(options: ExclusiveOptions): MethodDecorator {
  if (!(options.ttlMs > 0)) throw new Error('@Exclusive needs ttlMs');
  const injectRedis = Inject(REDIS_CLIENT);

  return (target: any, propertyKey, descriptor: PropertyDescriptor) => {
    injectRedis(target, '__exclusiveRedis');
    const original = descriptor.value as (...args: unknown[]) => Promise<unknown>;
    const label = `${target.constructor.name}.${String(propertyKey)}`;

    descriptor.value = async function (this: { __exclusiveRedis: Redis }, ...args: unknown[]) {
      const redis = this.__exclusiveRedis;
      const name = typeof options.key === 'function' ? options.key(...args) : options.key;
      const key = `exclusive:${name}`;
      const token = randomUUID();

      const reply = await redis.set(key, token, 'PX', options.ttlMs, 'NX');
      if (reply !== 'OK') {
        if (options.onBusy === 'skip') {
          logger.debug(`${label} skipped, ${key} is taken`);
          return undefined;
        }
        throw new ConflictException(`${name} is already in progress`);
      }

      const started = Date.now();
      try {
        return original.apply(this, args);
      } finally {
        const removed = await redis.eval(RELEASE, 1, key, token).catch((err: Error) => {
          logger.warn(`${label}: could not release ${key}: ${err.message}`);
          return null;
        });
        if (removed === 0) {
          logger.error(`${label} outlived ${key} (${Date.now() - started} ms, ttl ${options.ttlMs} ms)`);
        }
      }
    };

    return descriptor;
  };
}
