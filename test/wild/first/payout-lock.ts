import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import { Redis } from 'ioredis';

const DELETE_OWN = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class PayoutLock {
  private readonly redis: Redis;

  constructor(url = process.env.REDIS_URL ?? 'redis://localhost') {
    this.redis = new Redis(url, { commandTimeout: 1000, maxRetriesPerRequest: 1 });
    this.redis.on('error', () => {});
  }

  /** Waits up to `patience` ms for its turn. */
  async acquire(account: string, ttl = 5_000, patience = 20_000): Promise<string> {
    const key = `payout:${account}`;
    const token = randomUUID();
    const end = Date.now() + patience;
    while (Date.now() < end) {
      // both in one transaction, so that a crash cannot leave a key without a TTL
      const results = await this.redis.multi().setnx(key, token).pexpire(key, ttl).exec();
      if (results?.[0]?.[1] === 1) return token;
      await wait(250);
    }
    throw new Error(`payout lock of ${account} not available`);
  }

  async release(account: string, token: string): Promise<void> {
    await this.redis.eval(DELETE_OWN, 1, `payout:${account}`, token);
  }
}
