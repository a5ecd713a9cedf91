import Redis from 'ioredis';
import Redlock from 'redlock4';
import { formatISO, subDays } from 'date-fns';
import pRetry from 'p-retry';
import pino from 'pino';
import type { Knex } from 'knex';
import { BankApi, type StatementPage } from './bank-api';

const log = pino({ name: 'bank-reconcile' });

const redis = new Redis(process.env.REDIS_URL!);
const redlock = new Redlock([redis], { retryCount: 3, retryDelay: 400, retryJitter: 200 });
redlock.on('clientError', (err) => log.error({ err }, 'redlock client error'));

// Short, so that a crashed pod does not block the account for long.
const LOCK_TTL_MS = 10_000;

export class BankReconciler {
  constructor(
    private readonly db: Knex,
    private readonly bank: BankApi,
  ) {}

  /**
   * Books yesterday's bank movements into the ledger. The bank's API is slow (page by page,
   * one request per second allowed), a busy account has 100 pages and more.
   */
  async reconcile(accountId: string): Promise<{ booked: number }> {
    const day = formatISO(subDays(new Date(), 1), { representation: 'date' });
    const lock = await redlock.lock(`reconcile:${accountId}`, LOCK_TTL_MS);
    log.info({ accountId, day }, 'reconciliation started');

    try {
      const account = await this.db('accounts')
        .where({ id: accountId })
        .first(this.db.raw(`coalesce(reconciled_until::text, '') as until`));
      if (account.until >= day) return { booked: 0 };

      const entries: Record<string, unknown>[] = [];
      let cursor: string | undefined;
      do {
        const page: StatementPage = await pRetry(() => this.bank.statement(accountId, day, cursor), {
          retries: 4,
          minTimeout: 1_000,
        });
        for (const movement of page.movements) {
          entries.push({
            account_id: accountId,
            booked_on: day,
            amount_cents: movement.amountCents,
            counterparty: movement.counterparty,
            text: movement.purpose,
          });
        }
        cursor = page.next;
      } while (cursor);

      // all or nothing, so that an aborted run can simply be repeated
      await this.db.transaction(async (trx) => {
        await trx.batchInsert('ledger_entries', entries, 500);
        await trx('accounts').where({ id: accountId }).update({ reconciled_until: day });
      });
      log.info({ accountId, day, booked: entries.length }, 'reconciliation finished');
      return { booked: entries.length };
    } finally {
      try {
        await lock.unlock();
      } catch (err) {
        // can happen when the lock has expired on its own
        log.debug({ err, accountId }, 'unlock');
      }
    }
  }

  async reconcileAll(accountIds: string[]): Promise<void> {
    for (const accountId of accountIds) {
      try {
        await this.reconcile(accountId);
      } catch (err) {
        if ((err as Error).name === 'LockError') log.info({ accountId }, 'other pod is on it');
        else log.error({ err, accountId }, 'reconciliation failed');
      }
    }
  }
}
