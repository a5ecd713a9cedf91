import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';

const UNLOCK_AND_TELL = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('del', KEYS[1])
  redis.call('publish', ARGV[2], 'free')
  return 1
end
return 0`;

export class StockBusyError extends Error {
  constructor(sku: string) {
    super(`stock of ${sku} is locked`);
    this.name = 'StockBusyError';
  }
}

export class StockWaiter {
  private readonly redis: Redis;
  private readonly ttlMs: number;

  constructor(redis: Redis, ttlMs = 10_000) {
    this.redis = redis;
    this.ttlMs = ttlMs;
  }

  async lock(sku: string, waitMs = 5_000): Promise<() => Promise<void>> {
    const key = `stock:${sku}`;
    const channel = `${key}:free`;
    const token = randomUUID();

    const first = await this.redis.set(key, token, 'PX', this.ttlMs, 'NX');
    if (first !== 'OK') {
      const free = await this.waitForMessage(channel, waitMs);
      if (!free) throw new StockBusyError(sku);
      await this.redis.set(key, token, 'PX', this.ttlMs);
    }
    return async () => {
      await this.redis.eval(UNLOCK_AND_TELL, 1, key, token, channel);
    };
  }

  private async waitForMessage(channel: string, waitMs: number): Promise<boolean> {
    const subscriber = this.redis.duplicate();
    try {
      return await new Promise<boolean>((resolve, reject) => {
        const timer = setTimeout(() => resolve(false), waitMs);
        subscriber.on('message', () => {
          clearTimeout(timer);
          resolve(true);
        });
        subscriber.subscribe(channel).catch((err) => {
          clearTimeout(timer);
          reject(err);
        });
      });
    } finally {
      subscriber.disconnect();
    }
  }

  async adjust(sku: string, change: () => Promise<number>): Promise<number> {
    const unlock = await this.lock(sku);
    try {
      return await change();
    } finally {
      await unlock();
    }
  }
}

export function isLowStock(onHand: number, reserved: number, threshold = 5): boolean {
  return onHand - reserved <= threshold;
}
