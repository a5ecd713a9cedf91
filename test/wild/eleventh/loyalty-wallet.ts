import { randomUUID } from 'node:crypto';
import { createClient } from 'redis';

type Client = ReturnType<typeof createClient>;

/** Thin wrapper, so that the services do not deal with Redis commands. */
class RedisLocks {
  constructor(private readonly client: Client) {}

  async acquire(key: string, ttlMs: number): Promise<string | null> {
    const token = randomUUID();
    const reply = await this.client.set(key, token, { NX: true, PX: ttlMs });
    return reply === 'OK' ? token : null;
  }

  async release(key: string, token: string): Promise<boolean> {
    const n = await this.client.eval(
      `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
      { keys: [key], arguments: [token] },
    );
    return n === 1;
  }

  /** sets `target` if the lock is still held by `token` */
  async setIfHeld(key: string, token: string, target: string, value: string): Promise<void> {
    const n = await this.client.eval(
      `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
       redis.call('SET', KEYS[2], ARGV[2])
       return 1`,
      { keys: [key, target], arguments: [token, value] },
    );
    if (n !== 1) throw new Error(`${key} expired`);
  }
}

export class LoyaltyWallet {
  private static readonly LOCK_MS = 5_000;
  private readonly locks: RedisLocks;

  constructor(private readonly client: Client) {
    this.locks = new RedisLocks(client);
  }

  /** Points for a purchase: 1 per euro, doubled for gold members (10 000 points and more). */
  async earn(customerId: string, euros: number): Promise<number> {
    return this.exclusive(`loyalty:earn:${customerId}`, async (key, token) => {
      const balance = await this.balance(customerId);
      const points = Math.floor(euros) * (balance >= 10_000 ? 2 : 1);
      await this.locks.setIfHeld(key, token, this.balanceKey(customerId), String(balance + points));
      return balance + points;
    });
  }

  async redeem(customerId: string, points: number): Promise<number> {
    return this.exclusive(`loyalty:redeem:${customerId}`, async (key, token) => {
      const balance = await this.balance(customerId);
      if (balance < points) throw new Error('not enough points');
      await this.locks.setIfHeld(key, token, this.balanceKey(customerId), String(balance - points));
      return balance - points;
    });
  }

  async balance(customerId: string): Promise<number> {
    return Number((await this.client.get(this.balanceKey(customerId))) ?? 0);
  }

  private balanceKey(customerId: string): string {
    return `loyalty:balance:${customerId}`;
  }

  private async exclusive<T>(key: string, fn: (key: string, token: string) => Promise<T>): Promise<T> {
    for (let i = 0; i < 30; i++) {
      const token = await this.locks.acquire(key, LoyaltyWallet.LOCK_MS);
      if (token) {
        try {
          return await fn(key, token);
        } finally {
          await this.locks.release(key, token).catch(() => false);
        }
      }
      await new Promise((r) => setTimeout(r, 30 + Math.random() * 70));
    }
    throw new Error(`${key} is busy`);
  }
}
