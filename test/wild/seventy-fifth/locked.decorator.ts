import { ConflictException, Inject, Injectable, Logger } from '@nestjs/common';
import { randomUUID } from 'crypto';
import type Redis from 'ioredis';

const RELEASE = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`;
const RENEW = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end`;

export const LOCK_REDIS = Symbol('LOCK_REDIS');

@Injectable()
export class LockService {
  private readonly logger = new Logger(LockService.name);

  constructor(@Inject(LOCK_REDIS) private readonly redis: Redis) {}

  /** Resolves to a function that releases the lock, or to null if it is taken. */
  async acquire(key: string, ttlMs: number): Promise<(() => Promise<void>) | null> {
    const token = randomUUID();
    const reply = await this.redis.set(key, token, 'PX', ttlMs, 'NX');
    if (reply !== 'OK') return null;

    const watchdog = setInterval(() => {
      this.redis
        .eval(RENEW, 1, key, token, ttlMs)
        .then((n) => {
          if (n !== 1) {
            clearInterval(watchdog);
            this.logger.error(`lock ${key} is gone`);
          }
        })
        .catch((e) => this.logger.warn(`could not renew ${key}: ${e.message}`));
    }, Math.floor(ttlMs / 3));

    return async () => {
      clearInterval(watchdog);
      try {
        await this.redis.eval(RELEASE, 1, key, token);
      } catch (e) {
        this.logger.warn(`could not release ${key}: ${(e as Error).message}`);
      }
    };
  }
}

export interface LockedOptions {
  /** e.g. "settle:{0}" - {n} is replaced by the nth argument */
  key: string;
  ttlMs?: number;
  /** What to do if it is locked: throw a 409 (default) or return undefined. */
  onBusy?: 'throw' | 'skip';
}

/**
 * Method decorator. The class must have a LockService in `this.locks`.
 *
 *   @Locked({ key: 'settle:{0}' })
 *   async settle(batchId: string) { ... }
 */
export function Locked({ key, ttlMs = 30_000, onBusy = 'throw' }: LockedOptions): MethodDecorator {
  return (_target, name, descriptor: PropertyDescriptor) => {
    const method = descriptor.value as (...args: unknown[]) => Promise<unknown>;

    descriptor.value = async function (this: { locks: LockService }, ...args: unknown[]) {
      const resource = 'lock:' + key.replace(/\{(\d+)\}/g, (_m, i) => String(args[Number(i)]));
      const release = await this.locks.acquire(resource, ttlMs);
      if (!release) {
        if (onBusy === 'skip') return undefined;
        throw new ConflictException(`${String(name)} is already running for ${resource}`);
      }
      try {
        return method.apply(this, args);
      } finally {
        await release();
      }
    };

    return descriptor;
  };
}
