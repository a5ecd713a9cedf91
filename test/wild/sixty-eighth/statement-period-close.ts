import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Pool, PoolClient } from 'pg';
import type { Logger } from 'pino';

const LOCK_TTL_MS = 20_000;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

export type CloseOutcome =
  | { kind: 'closed'; closingBalance: bigint }
  | { kind: 'busy' }
  | { kind: 'already-closed' }
  | { kind: 'superseded' };

interface ClaimedPeriod {
  account_id: string;
  opening_balance: string;
  starts_at: Date;
  ends_at: Date;
}

/**
 * Closes an account's statement period.
 *
 * The Redis lock keeps workers from summing the same ledger at the same time; it is not
 * what keeps the books straight. That is the `fence` column: every attempt claims the row with a
 * higher number and may only close the row while its own number is still the one on it.
 * So there is no extension of the lock here, a slow sum simply loses to the one that claimed later.
 */
export class StatementPeriodCloser {
  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
    private readonly log: Logger,
  ) {}

  async close(periodId: string): Promise<CloseOutcome> {
    const key = `ledger:period-close:${periodId}`;
    const token = randomUUID();

    const reply = await this.redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
    if (reply !== 'OK') {
      return { kind: 'busy' };
    }

    try {
      return await this.closeFenced(periodId);
    } finally {
      await this.redis.eval(RELEASE, 1, key, token).catch((err: unknown) => {
        // it will run out by itself
        this.log.warn({ err, key }, 'period lock not released');
      });
    }
  }

  private async closeFenced(periodId: string): Promise<CloseOutcome> {
    const seq = await this.pool.query<{ fence: string }>(
      `SELECT nextval('statement_fence_seq') AS fence`,
    );
    const fence = seq.rows[0].fence;

    // Claim and read in one statement, committed at once, so that an older attempt is shut out
    // from here on.
    const claim = await this.pool.query<ClaimedPeriod>(
      `UPDATE statement_periods
          SET fence = $1
        WHERE id = $2 AND fence < $1 AND closed_at IS NULL AND ends_at < now() - interval '1 hour'
    RETURNING account_id, opening_balance, starts_at, ends_at`,
      [fence, periodId],
    );
    const period = claim.rows[0];
    if (!period) {
      return { kind: 'already-closed' };
    }

    // Entries of a period that has ended are never added or changed (trigger ledger_no_backdating).
    const sum = await this.pool.query<{ total: string }>(
      `SELECT coalesce(sum(amount), 0)::text AS total
         FROM ledger_entries
        WHERE account_id = $1 AND booked_at >= $2 AND booked_at < $3`,
      [period.account_id, period.starts_at, period.ends_at],
    );
    const closingBalance = BigInt(period.opening_balance) + BigInt(sum.rows[0].total);

    const client = await this.pool.connect();
    try {
      return await this.store(client, periodId, fence, closingBalance);
    } finally {
      client.release();
    }
  }

  private async store(
    client: PoolClient,
    periodId: string,
    fence: string,
    closingBalance: bigint,
  ): Promise<CloseOutcome> {
    await client.query('BEGIN');
    try {
      const done = await client.query(
        `UPDATE statement_periods
            SET closing_balance = $3, closed_at = now()
          WHERE id = $1 AND fence = $2 AND closed_at IS NULL`,
        [periodId, fence, closingBalance.toString()],
      );
      if (done.rowCount !== 1) {
        await client.query('ROLLBACK');
        this.log.info({ periodId, fence }, 'a later attempt has claimed the period');
        return { kind: 'superseded' };
      }
      await client.query(
        `INSERT INTO outbox (topic, dedupe_key, payload) VALUES ('statement.closed', $1, $2)`,
        [periodId, JSON.stringify({ periodId, closingBalance: closingBalance.toString() })],
      );
      await client.query('COMMIT');
      return { kind: 'closed', closingBalance };
    } catch (err) {
      await client.query('ROLLBACK').catch(() => undefined);
      throw err;
    }
  }
}
