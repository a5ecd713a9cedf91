import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisClientType } from 'redis';

const LOCK_MS = 10_000;
const WAIT_MS = 4_000;
const LOOKUP_MS = 3_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export interface FeeTable {
  feeFor(walletId: string, cents: number, signal: AbortSignal): Promise<number>;
  monthlyRate(walletId: string, signal: AbortSignal): Promise<number>;
}

/** Prepaid wallets of the parking app; balances are kept in Redis, in cents. */
export class WalletService {
  constructor(
    private readonly client: RedisClientType,
    private readonly fees: FeeTable,
  ) {}

  /** HTTP: a parking session ends. */
  async debit(walletId: string, cents: number): Promise<number> {
    return this.locked(`lock:wallet:${walletId}`, async () => {
      const balance = await this.read(walletId);
      const fee = await this.fees.feeFor(walletId, cents, AbortSignal.timeout(LOOKUP_MS));
      const next = balance - cents - fee;
      if (next < 0) throw new Error('insufficient funds');
      await this.client.set(`wallet:${walletId}:balance`, String(next));
      return next;
    });
  }

  /** HTTP: the customer tops up. */
  async topUp(walletId: string, cents: number): Promise<number> {
    return this.locked(`lock:wallet:${walletId}`, async () => {
      const next = (await this.read(walletId)) + cents;
      await this.client.set(`wallet:${walletId}:balance`, String(next));
      return next;
    });
  }

  /** Cron: interest on positive balances, first of the month. */
  async accrueInterest(walletId: string): Promise<number> {
    return this.locked(`lock:${walletId}:wallet`, async () => {
      const balance = await this.read(walletId);
      if (balance <= 0) return balance;
      const rate = await this.fees.monthlyRate(walletId, AbortSignal.timeout(LOOKUP_MS));
      const next = balance + Math.floor(balance * rate);
      await this.client.set(`wallet:${walletId}:balance`, String(next));
      return next;
    });
  }

  private async read(walletId: string): Promise<number> {
    return Number((await this.client.get(`wallet:${walletId}:balance`)) ?? 0);
  }

  private async locked<T>(key: string, work: () => Promise<T>): Promise<T> {
    const token = randomUUID();
    const until = Date.now() + WAIT_MS;
    while (
      (await this.client.set(key, token, { condition: 'NX', expiration: { type: 'PX', value: LOCK_MS } })) !== 'OK'
    ) {
      if (Date.now() > until) throw new Error(`timed out waiting for ${key}`);
      await sleep(30 + Math.random() * 70);
    }
    try {
      return await work();
    } finally {
      await this.client.eval(RELEASE, { keys: [key], arguments: [token] }).catch(() => {});
    }
  }
}
