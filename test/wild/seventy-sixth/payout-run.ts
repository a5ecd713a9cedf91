import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import type { PoolClient } from 'pg';
import { pool } from '../db';
import { screenPayouts } from './screening';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const LOCK_SECONDS = 60;

// Lock and number come from one script, so numbers grow in the order in which the lock is granted.
// The number restarts above what the database has seen if Redis ever comes back empty.
const ACQUIRE = `
if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then
  return 0
end
local n = tonumber(redis.call('get', KEYS[2]) or '0')
local floor = tonumber(ARGV[3])
if n < floor then n = floor end
n = n + 1
redis.call('set', KEYS[2], n)
return n`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0`;

export class StaleFenceError extends Error {
  name = 'StaleFenceError';
}

async function inTransaction<T>(fn: (tx: PoolClient) => Promise<T>): Promise<T> {
  const tx = await pool.connect();
  try {
    await tx.query('BEGIN');
    const out = await fn(tx);
    await tx.query('COMMIT');
    return out;
  } catch (err) {
    await tx.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    tx.release();
  }
}

/** Returns the number of queued payouts, or null when another worker has the account. */
export async function runPayouts(accountId: string): Promise<number | null> {
  const lockKey = `payout:{${accountId}}:lock`;
  const fenceKey = `payout:{${accountId}}:fence`;
  const token = randomUUID();

  const seen = await pool.query('SELECT last_fence FROM payout_accounts WHERE id = $1', [accountId]);
  if (seen.rowCount !== 1) throw new Error(`unknown account ${accountId}`);

  const fence = Number(
    await redis.eval(ACQUIRE, 2, lockKey, fenceKey, token, LOCK_SECONDS, String(seen.rows[0].last_fence)),
  );
  if (fence === 0) return null;

  try {
    // From here on every holder with a smaller number is refused by the commit below.
    const claim = await pool.query(
      'UPDATE payout_accounts SET last_fence = $2 WHERE id = $1 AND last_fence < $2',
      [accountId, fence],
    );
    if (claim.rowCount !== 1) throw new StaleFenceError(accountId);

    const pending = await pool.query(
      `SELECT id, amount, iban FROM payouts WHERE account_id = $1 AND status = 'pending' ORDER BY id`,
      [accountId],
    );
    const cleared: string[] = await screenPayouts(pending.rows); // slow, third party
    if (cleared.length === 0) return 0;

    return await inTransaction(async (tx) => {
      const owner = await tx.query(
        'SELECT id FROM payout_accounts WHERE id = $1 AND last_fence = $2 FOR UPDATE',
        [accountId, fence],
      );
      if (owner.rowCount !== 1) throw new StaleFenceError(accountId);

      const moved = await tx.query(
        `UPDATE payouts SET status = 'queued', batch = $2
          WHERE id = ANY($1) AND status = 'pending'`,
        [cleared, fence],
      );
      if (moved.rowCount !== cleared.length) throw new Error('payouts changed during screening');

      await tx.query(
        `UPDATE payout_accounts SET reserved = reserved + (
           SELECT coalesce(sum(amount), 0) FROM payouts WHERE id = ANY($1)
         ) WHERE id = $2`,
        [cleared, accountId],
      );
      return cleared.length;
    });
  } finally {
    await redis.eval(RELEASE, 1, lockKey, token).catch((err) => {
      console.error('payout lock not released, expires in at most %d s', LOCK_SECONDS, err);
    });
  }
}
