import { randomUUID } from 'node:crypto';
import { Redis } from 'iovalkey';

// @Injectable() in the app module; one instance for the whole process.
export class PayoutLockService {
  private static readonly TTL = 30_000;
  private static readonly MARGIN = 750;

  private static readonly RELEASE = `
    if redis.call('GET', KEYS[1]) == ARGV[1] then
      return redis.call('DEL', KEYS[1])
    end
    return 0`;

  private static readonly EXTEND = `
    if redis.call('GET', KEYS[1]) == ARGV[1] then
      return redis.call('PEXPIRE', KEYS[1], ARGV[2])
    end
    return 0`;

  private readonly valkey: Redis;
  private token = '';

  constructor(valkey: Redis) {
    this.valkey = valkey;
  }

  /**
   * Runs the work if the batch is free, otherwise returns undefined. `stillOurs`
   * prolongs the lock when half of it is used up; call it before each transfer.
   */
  async runExclusive<T>(batch: string, work: (stillOurs: () => Promise<boolean>) => Promise<T>): Promise<T | undefined> {
    const key = `payout:batch:${batch}`;
    this.token = randomUUID();

    let until = performance.now() + PayoutLockService.TTL - PayoutLockService.MARGIN;
    try {
      const reply = await this.valkey.set(key, this.token, 'PX', PayoutLockService.TTL, 'NX');
      if (reply !== 'OK') return undefined;
    } catch (err) {
      void this.release(key);
      throw err;
    }

    const stillOurs = async (): Promise<boolean> => {
      const now = performance.now();
      if (now >= until) return false;
      if (until - now > PayoutLockService.TTL / 2) return true;
      try {
        const n = await this.valkey.eval(PayoutLockService.EXTEND, 1, key, this.token, PayoutLockService.TTL);
        if (n !== 1 || performance.now() >= until) until = 0;
        else until = now + PayoutLockService.TTL - PayoutLockService.MARGIN;
      } catch (err) {
        console.warn(`payouts: cannot prolong ${key}`, err);
      }
      return performance.now() < until;
    };

    try {
      return await work(stillOurs);
    } finally {
      await this.release(key);
    }
  }

  private async release(key: string): Promise<void> {
    try {
      await this.valkey.eval(PayoutLockService.RELEASE, 1, key, this.token);
    } catch (err) {
      console.warn(`payouts: ${key} is left to expire`, err);
    }
  }
}

export interface Bank {
  open(batch: string): Promise<{ id: string; iban: string; cents: number }[]>;
  /** Gives up after ten seconds; the id is the bank's idempotency key. */
  transfer(p: { id: string; iban: string; cents: number }): Promise<void>;
  markPaid(id: string): Promise<void>;
}

export class PayoutBatches {
  private readonly locks: PayoutLockService;
  private readonly bank: Bank;

  constructor(locks: PayoutLockService, bank: Bank) {
    this.locks = locks;
    this.bank = bank;
  }

  async pay(batch: string): Promise<'paid' | 'busy'> {
    const result = await this.locks.runExclusive(batch, async (stillOurs) => {
      for (const p of await this.bank.open(batch)) {
        if (!(await stillOurs())) throw new Error(`payout batch ${batch}: lock lost`);
        await this.bank.transfer(p);
        await this.bank.markPaid(p.id);
      }
      return 'paid' as const;
    });
    return result ?? 'busy';
  }
}
