import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export class AccountsLocked extends Error {
  constructor(accounts: string[]) {
    super(`accounts in use: ${accounts.join(', ')}`);
    this.name = 'AccountsLocked';
  }
}

export class AccountLocks {
  private readonly redis: Redis;
  private readonly ttlMs: number;

  constructor(redis: Redis, ttlMs = 6_000) {
    this.redis = redis;
    this.ttlMs = ttlMs;
  }

  private async lockAll(keys: string[], token: string): Promise<boolean> {
    for (const key of keys) {
      const reply = await this.redis.set(key, token, 'PX', this.ttlMs, 'NX');
      if (reply !== 'OK') {
        await this.redis.del(...keys);
        return false;
      }
    }
    return true;
  }

  private async unlockAll(keys: string[], token: string): Promise<void> {
    await Promise.allSettled(keys.map((key) => this.redis.eval(UNLOCK, 1, key, token)));
  }

  async withAccounts<T>(accounts: string[], fn: () => Promise<T>): Promise<T> {
    // always in the same order, two transfers in opposite directions do not block each other
    const sorted = [...new Set(accounts)].sort();
    const keys = sorted.map((id) => `account:${id}:lock`);
    for (let attempt = 0; attempt < 6; attempt++) {
      const token = randomUUID();
      if (await this.lockAll(keys, token)) {
        try {
          return await fn();
        } finally {
          await this.unlockAll(keys, token);
        }
      }
      await sleep(60 * (attempt + 1) * (0.5 + Math.random()));
    }
    throw new AccountsLocked(sorted);
  }
}

export interface Book {
  balance(account: string): Promise<number>;
  move(from: string, to: string, cents: number): Promise<void>;
}

export async function transfer(locks: AccountLocks, book: Book, from: string, to: string, cents: number) {
  if (from === to || cents <= 0) throw new RangeError('nothing to transfer');
  return locks.withAccounts([from, to], async () => {
    if ((await book.balance(from)) < cents) return false;
    await book.move(from, to, cents);
    return true;
  });
}
