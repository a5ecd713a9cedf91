import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import Redlock, { ResourceLockedError } from 'redlock5';

export interface CloseSummary {
  month: string;
  closed: number;
}

export class MonthCloseService {
  private readonly redlock: Redlock;

  constructor(
    redis: Redis,
    private readonly pool: Pool,
  ) {
    this.redlock = new Redlock([redis], {
      retryCount: 3,
      retryDelay: 500,
      retryJitter: 200,
      automaticExtensionThreshold: 5_000,
    });
    this.redlock.on('error', (err: unknown) => {
      if (err instanceof ResourceLockedError) return;
      console.error('redlock', err);
    });
  }

  async close(month: string): Promise<CloseSummary> {
    return this.redlock.using([`books:close:${month}`], 30_000, async (signal) => {
      const { rows: accounts } = await this.pool.query<{ id: string }>(
        'SELECT id FROM accounts WHERE active ORDER BY id',
      );

      let closed = 0;
      for (const account of accounts) {
        if (signal.aborted) throw signal.error;
        if (await this.closeAccount(account.id, month)) closed += 1;
      }
      return { month, closed };
    });
  }

  private async closeAccount(accountId: string, month: string): Promise<boolean> {
    const res = await this.pool.query(
      `INSERT INTO closings (account_id, month, balance_cents)
       SELECT $1, $2, COALESCE(SUM(cents), 0)
         FROM entries
        WHERE account_id = $1 AND to_char(booked_at, 'YYYY-MM') = $2
       ON CONFLICT (account_id, month) DO NOTHING`,
      [accountId, month],
    );
    return res.rowCount === 1;
  }
}
