import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

// Store credit lives in Redis: {credit:<customer>}:balance is in cents of the
// shop currency, {credit:<customer>}:log is the statement shown to support.

const LOCK_MS = 8_000;
const WAIT_MS = 3_000;

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;

// KEYS: lock, balance, log   ARGV: token, new balance, log line
const COMMIT = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('set', KEYS[2], ARGV[2])
redis.call('lpush', KEYS[3], ARGV[3])
redis.call('ltrim', KEYS[3], 0, 499)
return 1`;

export class CreditBusyError extends Error {}
export class InsufficientCreditError extends Error {}
export class CreditConflictError extends Error {}

export interface ExchangeRates {
  toShopCents(amount: number, currency: string): Promise<number>;
}

export class StoreCredit {
  constructor(
    private readonly client: RedisClientType,
    private readonly rates: ExchangeRates,
  ) {}

  grant(customerId: string, amount: number, currency: string, reason: string) {
    return this.change(customerId, async () => this.rates.toShopCents(amount, currency), reason);
  }

  spend(customerId: string, amount: number, currency: string, orderId: string) {
    return this.change(customerId, async () => -(await this.rates.toShopCents(amount, currency)), `order ${orderId}`);
  }

  async balance(customerId: string): Promise<number> {
    return Number((await this.client.get(`{credit:${customerId}}:balance`)) ?? 0);
  }

  private async change(customerId: string, delta: () => Promise<number>, note: string): Promise<number> {
    const base = `{credit:${customerId}}`;
    const lockKey = `${base}:lock`;
    const token = await this.lock(lockKey);
    try {
      const before = await this.balance(customerId);
      const cents = await delta();
      if (!Number.isSafeInteger(cents)) throw new TypeError(`not an amount: ${cents}`);
      const after = before + cents;
      if (after < 0) throw new InsufficientCreditError(`${customerId} has ${before}, needs ${-cents}`);

      const line = JSON.stringify({ at: new Date().toISOString(), cents, after, note });
      const done = await this.client.eval(COMMIT, {
        keys: [lockKey, `${base}:balance`, `${base}:log`],
        arguments: [token, String(after), line],
      });
      // the rate service can be slow; nothing is booked once the lock is not ours
      if (done !== 1) throw new CreditConflictError(`credit of ${customerId} changed hands, try again`);
      return after;
    } finally {
      await this.client.eval(RELEASE, { keys: [lockKey], arguments: [token] }).catch(() => {
        // runs out by itself after LOCK_MS
      });
    }
  }

  private async lock(key: string): Promise<string> {
    const token = randomUUID();
    const giveUpAt = Date.now() + WAIT_MS;
    for (;;) {
      const reply = await this.client.set(key, token, {
        condition: 'NX',
        expiration: { type: 'PX', value: LOCK_MS },
      });
      if (reply === 'OK') return token;
      if (Date.now() >= giveUpAt) throw new CreditBusyError(`gave up waiting for ${key}`);
      await sleep(40 + Math.random() * 80);
    }
  }
}
