import { ConflictException, Injectable, Logger, OnModuleDestroy, OnModuleInit } from '@nestjs/common';
import { ConfigService } from '@nestjs/config';
import { randomUUID } from 'crypto';
import { createClient, type RedisClientType } from 'redis';

const RELEASE_SCRIPT = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  else
    return 0
  end
`;

export interface LockHandle {
  key: string;
  token: string;
}

/**
 * Short locks around read-modify-write on wallets, seats and coupons.
 *
 * LOCK_TTL_SECONDS   default 60, our transactions have a 20s timeout
 * LOCK_WAIT_SECONDS  default 10
 */
@Injectable()
export class LockService implements OnModuleInit, OnModuleDestroy {
  private readonly logger = new Logger(LockService.name);
  private readonly client: RedisClientType;
  private readonly ttl: number;
  private readonly wait: number;

  constructor(config: ConfigService) {
    this.client = createClient({ url: config.getOrThrow<string>('REDIS_URL') });
    this.client.on('error', (err) => this.logger.error(err));
    this.ttl = Number(config.get('LOCK_TTL_SECONDS') ?? 60);
    this.wait = Number(config.get('LOCK_WAIT_SECONDS') ?? 10);
  }

  async onModuleInit() {
    await this.client.connect();
    this.logger.log(`locks ready (ttl ${this.ttl}s, wait ${this.wait}s)`);
  }

  async onModuleDestroy() {
    await this.client.quit();
  }

  async tryAcquire(name: string): Promise<LockHandle | null> {
    const handle = { key: `lock:${name}`, token: randomUUID() };
    const res = await this.client.set(handle.key, handle.token, { NX: true, PX: this.ttl });
    return res === 'OK' ? handle : null;
  }

  async acquire(name: string): Promise<LockHandle> {
    const deadline = Date.now() + this.wait * 1000;
    let attempt = 0;
    while (Date.now() < deadline) {
      const handle = await this.tryAcquire(name);
      if (handle) return handle;
      attempt++;
      const backoff = Math.min(50 * attempt, 500);
      await new Promise((resolve) => setTimeout(resolve, backoff + Math.random() * 50));
    }
    throw new ConflictException(`Resource ${name} is busy, please try again`);
  }

  async release(handle: LockHandle): Promise<boolean> {
    try {
      const n = await this.client.eval(RELEASE_SCRIPT, {
        keys: [handle.key],
        arguments: [handle.token],
      });
      return n === 1;
    } catch (err) {
      this.logger.warn(`could not release ${handle.key}: ${(err as Error).message}`);
      return false;
    }
  }

  /** fn must be one database transaction (20s timeout), nothing longer */
  async runExclusive<T>(name: string, fn: () => Promise<T>): Promise<T> {
    const handle = await this.acquire(name);
    try {
      return await fn();
    } finally {
      await this.release(handle);
    }
  }
}
