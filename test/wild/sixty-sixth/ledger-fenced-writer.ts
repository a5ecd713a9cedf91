import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import { pool } from '../db';

/**
 * Monthly interest is written to `ledger_balances` by whichever worker gets the
 * account. The lock only keeps workers from wasting time on the same account; what
 * keeps the balance right is the fence:
 *
 *   1. a new holder gets a number higher than all before (INCR in the same script),
 *   2. it raises the row's fence to its number and reads the row, in one statement,
 *   3. it writes only if the row's fence is still its own number.
 *
 * Nothing else writes this table (movements live in `ledger_entries`, and the role of
 * the other services has no UPDATE on it).
 *
 * So a worker that was paused past its TTL finds another number at step 3, and one
 * which comes late to step 2 finds a higher one. The fence counter has no TTL. Should
 * it ever be lost with the Redis data, step 2 refuses everybody until it is reseeded
 * from max(fence) (scripts/reseed-fences.sql).
 */
const LOCK_TTL_MS = 20_000;

const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export class StaleFenceError extends Error {
  constructor(readonly accountId: string, readonly fence: number) {
    super(`fence ${fence} of account ${accountId} has been overtaken`);
    this.name = 'StaleFenceError';
  }
}

interface BalanceRow {
  cents: string;
  interest_month: string | null;
}

interface Logger {
  info(fields: object, msg: string): void;
  warn(fields: object, msg: string): void;
}

export type AccrualResult = 'accrued' | 'already_done' | 'busy';

export class LedgerInterestWriter {
  constructor(
    private readonly redis: Redis,
    private readonly log: Logger,
  ) {}

  async accrue(accountId: string, month: string, monthlyRatePpm: number): Promise<AccrualResult> {
    const lockKey = `ledger:{${accountId}}:lock`;
    const fenceKey = `ledger:{${accountId}}:fence`;
    const token = randomUUID();

    const fence = Number(await this.redis.eval(ACQUIRE, 2, lockKey, fenceKey, token, LOCK_TTL_MS));
    if (fence === 0) {
      return 'busy';
    }

    try {
      const row = await this.open(accountId, fence);
      if (row.interest_month !== null && row.interest_month >= month) {
        return 'already_done';
      }
      const cents = BigInt(row.cents);
      const interest = (cents * BigInt(monthlyRatePpm)) / 1_000_000n;
      await this.write(accountId, fence, cents + interest, month);
      this.log.info({ accountId, month, interest: interest.toString(), fence }, 'interest accrued');
      return 'accrued';
    } finally {
      await this.release(lockKey, token);
    }
  }

  private async open(accountId: string, fence: number): Promise<BalanceRow> {
    const res = await pool.query(
      `UPDATE ledger_balances
          SET fence = $2
        WHERE account_id = $1 AND fence < $2
        RETURNING cents::text AS cents, interest_month`,
      [accountId, fence],
    );
    if (res.rowCount !== 1) {
      throw new StaleFenceError(accountId, fence);
    }
    return res.rows[0] as BalanceRow;
  }

  private async write(accountId: string, fence: number, cents: bigint, month: string): Promise<void> {
    const res = await pool.query(
      `UPDATE ledger_balances
          SET cents = $3, interest_month = $4, updated_at = now()
        WHERE account_id = $1 AND fence = $2`,
      [accountId, fence, cents.toString(), month],
    );
    if (res.rowCount !== 1) {
      throw new StaleFenceError(accountId, fence);
    }
  }

  private async release(lockKey: string, token: string): Promise<void> {
    try {
      const deleted = await this.redis.eval(RELEASE, 1, lockKey, token);
      if (deleted !== 1) {
        this.log.warn({ lockKey }, 'lock had expired before release');
      }
    } catch (err) {
      this.log.warn({ lockKey, err }, 'release failed, waiting for ttl');
    }
  }
}
