import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import type { Knex } from 'knex';
import type { Logger } from 'pino';

const redis = new Redis(process.env.WALLET_REDIS_URL ?? 'redis://redis:6379/2', {
  maxRetriesPerRequest: 2,
  commandTimeout: 1_000,
});

const TTL_MS = 15_000;
const RELEASE = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`;

export class WalletBusyError extends Error {
  readonly code = 'WALLET_BUSY';
}

export class InsufficientFundsError extends Error {
  readonly code = 'INSUFFICIENT_FUNDS';
}

export interface Withdrawal {
  id: string;
  walletId: string;
  amount: number;
  iban: string;
}

async function withWalletLock<T>(walletId: string, work: (assertTime: () => void) => Promise<T>): Promise<T> {
  const key = `wallet:${walletId}:lock`;
  const token = randomUUID();

  for (let attempt = 0; attempt < 20; attempt += 1) {
    const askedAt = performance.now();
    if ((await redis.set(key, token, 'PX', TTL_MS, 'NX')) === 'OK') {
      const assertTime = () => {
        if (performance.now() - askedAt > TTL_MS - 3_000) {
          throw new WalletBusyError(`wallet ${walletId}: ran out of time`);
        }
      };
      try {
        return await work(assertTime);
      } finally {
        await redis.eval(RELEASE, 1, key, token).catch(() => undefined);
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 50 + Math.random() * 100));
  }
  throw new WalletBusyError(`wallet ${walletId} is busy`);
}

/**
 * A wallet has no balance column: its balance is the sum of its ledger. Nothing in the database keeps
 * a ledger from going below zero, so bookings against a wallet go through the wallet's lock.
 */
export class WithdrawalService {
  constructor(
    private readonly knex: Knex,
    private readonly log: Logger,
  ) {}

  async withdraw(walletId: string, amount: number, iban: string): Promise<Withdrawal> {
    if (!Number.isSafeInteger(amount) || amount <= 0) {
      throw new RangeError('amount must be a positive number of cents');
    }

    const withdrawal: Withdrawal = { id: randomUUID(), walletId, amount, iban };

    await this.knex.transaction(
      async (trx) => {
        await trx.raw(`SET LOCAL statement_timeout = '2s'`);
        await trx('audit_log').insert({
          subject: walletId,
          action: 'withdrawal.requested',
          detail: JSON.stringify({ id: withdrawal.id, amount }),
        });

        await withWalletLock(walletId, async (assertTime) => {
          const balance = await this.balance(trx, walletId);
          if (balance < amount) {
            throw new InsufficientFundsError(`wallet ${walletId} has ${balance}, asked for ${amount}`);
          }
          assertTime();
          await trx('wallet_ledger').insert({
            id: withdrawal.id,
            wallet_id: walletId,
            amount: -amount,
            kind: 'withdrawal',
          });
        });

        await trx('payout_outbox').insert({
          dedupe_key: withdrawal.id,
          payload: JSON.stringify(withdrawal),
        });
        await this.bumpStatistics(trx, amount);
      },
      { isolationLevel: 'read committed' },
    );

    this.log.info({ walletId, amount, id: withdrawal.id }, 'withdrawal booked');
    return withdrawal;
  }

  private async balance(trx: Knex.Transaction, walletId: string): Promise<number> {
    const row = await trx('wallet_ledger').where({ wallet_id: walletId }).sum({ total: 'amount' }).first();
    return Number(row?.total ?? 0);
  }

  private async bumpStatistics(trx: Knex.Transaction, amount: number): Promise<void> {
    const day = new Date().toISOString().slice(0, 10);
    await trx('withdrawal_stats')
      .insert({ day, count: 1, total: amount })
      .onConflict('day')
      .merge({
        count: trx.raw('withdrawal_stats.count + 1'),
        total: trx.raw('withdrawal_stats.total + ?', [amount]),
      });
  }
}
