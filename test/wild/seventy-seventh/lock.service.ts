import { Inject, Injectable, Logger } from '@nestjs/common';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { REDIS_CLIENT } from './redis.module';

export interface LockOptions {
  /** Upper bound for the work in seconds, the lock is kept for that long (default 30). */
  ttl?: number;
  /** Number of further attempts if the lock is taken (default 10). */
  retries?: number;
  /** Pause between attempts in milliseconds (default 200). */
  retryDelay?: number;
}

export class LockNotAcquiredException extends Error {
  constructor(public readonly lockName: string) {
    super(`Lock "${lockName}" could not be acquired`);
    this.name = LockNotAcquiredException.name;
  }
}

const RELEASE_SCRIPT = `
  if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
  else
    return 0
  end
`;

@Injectable()
export class LockService {
  private readonly logger = new Logger(LockService.name);

  constructor(@Inject(REDIS_CLIENT) private readonly redis: Redis) {}

  /**
   * Runs `work` under the named lock.
   *
   * `work` gets a signal which fires shortly before the lock runs out and must stop then.
   * Closing a tender, for instance, passes it to the transaction helper, which rolls back.
   */
  async run<T>(name: string, work: (signal: AbortSignal) => Promise<T>, options: LockOptions = {}): Promise<T> {
    const { ttl = 30, retries = 10, retryDelay = 200 } = options;
    const key = `locks:${name}`;
    const token = randomUUID();

    const requestedAt = await this.acquire(key, token, ttl, retries, retryDelay);
    try {
      const budget = ttl * 1000 * 0.9 - (Date.now() - requestedAt);
      if (budget <= 0) {
        throw new LockNotAcquiredException(name);
      }
      return await work(AbortSignal.timeout(Math.floor(budget)));
    } finally {
      await this.release(key, token);
    }
  }

  private async acquire(
    key: string,
    token: string,
    ttl: number,
    retries: number,
    retryDelay: number,
  ): Promise<number> {
    for (let attempt = 0; attempt <= retries; attempt++) {
      const requestedAt = Date.now();
      const reply = await this.redis.set(key, token, 'PX', ttl, 'NX');
      if (reply === 'OK') {
        this.logger.debug(`${key} acquired after ${attempt} retries`);
        return requestedAt;
      }
      await sleep(retryDelay + Math.random() * retryDelay * 0.5);
    }
    throw new LockNotAcquiredException(key);
  }

  private async release(key: string, token: string): Promise<void> {
    try {
      const released = await this.redis.eval(RELEASE_SCRIPT, 1, key, token);
      if (released === 0) {
        this.logger.debug(`${key} was not ours any more`);
      }
    } catch (error) {
      this.logger.warn(`${key} could not be released and will expire: ${(error as Error).message}`);
    }
  }
}
