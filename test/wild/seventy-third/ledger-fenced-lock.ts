import { randomUUID } from 'node:crypto';
import type { Redis } from 'ioredis';
import type { Pool } from 'pg';
import { logger } from './logger';
import type { RiskClient } from './risk-client';

// Both keys share a hash tag, so the script is fine on a cluster too.
// The sequence key has no TTL on purpose: the numbers must only ever go up.
const TAKE = `
local cur = redis.call('GET', KEYS[1])
if cur and cur ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('INCR', KEYS[2])
`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`;

export class AccountBusyError extends Error {
  constructor(readonly accountId: string) {
    super(`account ${accountId} is being posted to by someone else`);
  }
}

export class StaleFenceError extends Error {
  constructor(readonly accountId: string, readonly fence: number) {
    super(`fence ${fence} is no longer current for account ${accountId}`);
  }
}

export interface Entry {
  entryId: string;
  amountCents: number;
  memo: string;
}

export class LedgerWriter {
  constructor(
    private readonly redis: Redis,
    private readonly pool: Pool,
    private readonly risk: RiskClient,
    private readonly leaseMs = 15_000,
  ) {}

  async post(accountId: string, entries: Entry[]): Promise<void> {
    const lockKey = `ledger:{${accountId}}:lock`;
    const token = randomUUID();
    const fence = Number(
      await this.redis.eval(TAKE, 2, lockKey, `ledger:{${accountId}}:seq`, token, this.leaseMs),
    );
    if (fence === 0) throw new AccountBusyError(accountId);

    try {
      const balance = await this.claim(accountId, fence);
      // May take a while. If it outlives the lease, someone else claims the row
      // with a higher number and our commit below is refused.
      await this.risk.assertAllowed(accountId, balance, entries);
      await this.commit(accountId, fence, entries);
    } finally {
      await this.redis.eval(DROP, 1, lockKey, token).catch((err: unknown) => {
        logger.warn({ err, accountId }, 'could not drop ledger lock, it will expire');
      });
    }
  }

  private async claim(accountId: string, fence: number): Promise<bigint> {
    const res = await this.pool.query(
      'UPDATE ledger_accounts SET fence = $2 WHERE id = $1 AND fence < $2 RETURNING balance',
      [accountId, fence],
    );
    if (res.rowCount !== 1) throw new StaleFenceError(accountId, fence);
    return BigInt(res.rows[0].balance);
  }

  private async commit(accountId: string, fence: number, entries: Entry[]): Promise<void> {
    const client = await this.pool.connect();
    try {
      await client.query('BEGIN');
      const held = await client.query(
        'SELECT 1 FROM ledger_accounts WHERE id = $1 AND fence = $2 FOR UPDATE',
        [accountId, fence],
      );
      if (held.rowCount !== 1) throw new StaleFenceError(accountId, fence);
      await client.query(
        `WITH added AS (
           INSERT INTO ledger_entries (entry_id, account_id, amount, memo)
           SELECT e.id, $1, e.amount, e.memo
             FROM unnest($2::uuid[], $3::bigint[], $4::text[]) AS e(id, amount, memo)
           ON CONFLICT (entry_id) DO NOTHING
           RETURNING amount
         )
         UPDATE ledger_accounts
            SET balance = balance + (SELECT COALESCE(SUM(amount), 0) FROM added)
          WHERE id = $1`,
        [
          accountId,
          entries.map((e) => e.entryId),
          entries.map((e) => e.amountCents),
          entries.map((e) => e.memo),
        ],
      );
      await client.query('COMMIT');
    } catch (err) {
      await client.query('ROLLBACK').catch(() => undefined);
      throw err;
    } finally {
      client.release();
    }
  }
}
