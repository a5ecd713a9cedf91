import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from '@upstash/redis';

interface SalesRepository {
  promotersWithSales(day: string): Promise<string[]>;
  settledCents(promoterId: string, day: string): Promise<number>;
}

interface BankGateway {
  transfer(
    order: { promoterId: string; cents: number; purpose: string },
    opts: { signal: AbortSignal },
  ): Promise<{ transferId: string }>;
}

interface PayoutJournal {
  append(entry: { promoterId: string; day: string; cents: number; transferId: string }): Promise<void>;
}

interface Logger {
  info(msg: string, ctx?: object): void;
  error(msg: string, ctx?: object): void;
}

const TTL_MS = 60_000;
const TRANSFER_MS = 15_000;
const SPREAD_MS = 20_000;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

/** Pays the promoters for a day's ticket sales. Cron starts it at 03:00 on every instance of the shop. */
export class PromoterPayoutJob {
  private readonly redis: Redis;
  private readonly sales: SalesRepository;
  private readonly bank: BankGateway;
  private readonly journal: PayoutJournal;
  private readonly log: Logger;

  constructor(redis: Redis, sales: SalesRepository, bank: BankGateway, journal: PayoutJournal, log: Logger) {
    this.redis = redis;
    this.sales = sales;
    this.bank = bank;
    this.journal = journal;
    this.log = log;
  }

  async run(day: string): Promise<void> {
    // Keeps the instances from all knocking on Redis in the same millisecond.
    await sleep(Math.random() * SPREAD_MS);

    // The day is part of the key: there is one payout run per day, whichever instance gets it.
    const key = `payout:${day}`;
    const token = randomUUID();
    const reply = await this.redis.set(key, token, { nx: true, px: TTL_MS });
    if (reply !== 'OK') {
      this.log.info('payout is handled by another instance', { day });
      return;
    }

    try {
      for (const promoterId of await this.sales.promotersWithSales(day)) {
        const cents = await this.sales.settledCents(promoterId, day);
        if (cents <= 0) continue;
        await this.extend(key, token);
        await this.pay(promoterId, day, cents);
      }
      this.log.info('payout run complete', { day });
    } finally {
      await this.redis.eval(RELEASE, [key], [token]).catch((err: unknown) => {
        this.log.error('payout lock left to expire', { key, err });
      });
    }
  }

  private async pay(promoterId: string, day: string, cents: number): Promise<void> {
    try {
      const { transferId } = await this.bank.transfer(
        { promoterId, cents, purpose: `Ticket sales ${day}` },
        { signal: AbortSignal.timeout(TRANSFER_MS) },
      );
      await this.journal.append({ promoterId, day, cents, transferId });
    } catch (err) {
      // Accounting looks into these by hand.
      this.log.error('payout needs attention', { promoterId, day, cents, err });
    }
  }

  /** A full TTL for the next transfer, or the end of the run when the lock is not ours any more. */
  private async extend(key: string, token: string): Promise<void> {
    const sentAt = performance.now();
    const extended = await this.redis.eval(EXTEND, [key], [token, TTL_MS]);
    if (extended !== 1 || performance.now() - sentAt > TTL_MS - 2 * TRANSFER_MS) {
      throw new Error(`payout lock ${key} was lost`);
    }
  }
}
