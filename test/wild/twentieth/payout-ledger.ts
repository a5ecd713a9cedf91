import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

// Balances live in the same Redis as the lock, so the fence can be checked
// in the very script which reads or writes the balance.

const ACQUIRE = `
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('incr', KEYS[2])
end
return 0`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

// Reading announces the fence too: an older holder can't write after a newer one has read.
const OPEN_ACCOUNT = `
local seen = tonumber(redis.call('hget', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return nil end
redis.call('hset', KEYS[1], 'fence', ARGV[1])
return redis.call('hget', KEYS[1], 'balance') or '0'`;

const STORE_BALANCE = `
local seen = tonumber(redis.call('hget', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('hset', KEYS[1], 'fence', ARGV[1], 'balance', ARGV[2])
return 1`;

const LOCK_TTL_MS = 8_000;
const MAX_ATTEMPTS = 25;

export class StaleHolderError extends Error {}
export class AccountBusyError extends Error {}

interface Hold {
  token: string;
  fence: number;
}

export class PayoutLedger {
  constructor(private readonly redis: Redis) {}

  private keys(account: string) {
    // one hash slot per account
    return {
      lock: `{acct:${account}}:lock`,
      counter: `{acct:${account}}:fence`,
      data: `{acct:${account}}:data`,
    };
  }

  private async acquire(account: string): Promise<Hold> {
    const { lock, counter } = this.keys(account);
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const token = randomUUID();
      try {
        const fence = Number(await this.redis.eval(ACQUIRE, 2, lock, counter, token, LOCK_TTL_MS));
        if (fence > 0) return { token, fence };
      } catch (err) {
        // The reply may have been lost after the script ran.
        await this.release(account, token);
        throw err;
      }
      await sleep(60 + Math.random() * 120);
    }
    throw new AccountBusyError(account);
  }

  private async release(account: string, token: string): Promise<void> {
    try {
      await this.redis.eval(RELEASE, 1, this.keys(account).lock, token);
    } catch (err) {
      // It expires on its own; the fence keeps the data safe in the meantime.
      console.warn('payout lock not released', account, err);
    }
  }

  /**
   * Takes `cents` off the account. `quoteFee` may be slow (it asks the bank);
   * if it outlasts the lock, the fenced write is refused.
   */
  async debit(account: string, cents: number, quoteFee: (cents: number) => Promise<number>): Promise<number> {
    const hold = await this.acquire(account);
    try {
      const { data } = this.keys(account);
      const raw = (await this.redis.eval(OPEN_ACCOUNT, 1, data, hold.fence)) as string | null;
      if (raw === null) throw new StaleHolderError(account);

      const fee = await quoteFee(cents);
      const next = Number(raw) - cents - fee;
      if (next < 0) throw new RangeError('insufficient funds');

      const stored = await this.redis.eval(STORE_BALANCE, 1, data, hold.fence, String(next));
      if (stored !== 1) throw new StaleHolderError(account);
      return next;
    } finally {
      await this.release(account, hold.token);
    }
  }
}
