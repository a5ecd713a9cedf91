import type { Redis } from 'ioredis';
import type { PoolClient } from 'pg';
import { pool } from './db.js';

const OPEN = `
if redis.call('EXISTS', KEYS[1]) == 1 then return false end
local fence = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], fence, 'PX', ARGV[1])
return fence`;

const CLOSE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

export class StaleFence extends Error {}

interface Draft {
  id: string;
  customerId: string;
  totalCents: number;
}

async function inTransaction<T>(fn: (tx: PoolClient) => Promise<T>): Promise<T> {
  const tx: PoolClient = await pool.connect();
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

async function issue(tx: PoolClient, series: string, fence: number, draft: Draft): Promise<string | null> {
  const next = await tx.query<{ value: string }>(
    `UPDATE invoice_series SET value = value + 1, fence = $2
      WHERE series = $1 AND fence <= $2
      RETURNING value`,
    [series, fence],
  );
  const row = next.rows[0];
  if (!row) throw new StaleFence(`${series}: fence ${fence} was overtaken`);
  const number = `${series}-${row.value.padStart(6, '0')}`;
  const done = await tx.query(
    `UPDATE invoices SET number = $2, issued_at = now() WHERE id = $1 AND number IS NULL`,
    [draft.id, number],
  );
  return done.rowCount === 1 ? number : null;
}

export async function issueDrafts(redis: Redis, series: string): Promise<string[]> {
  const lockKey = `invoices:{${series}}:lock`;
  const fence = (await redis.eval(OPEN, 2, lockKey, `invoices:{${series}}:fence`, 60_000)) as number | null;
  if (fence === null) return [];

  const numbers: string[] = [];
  try {
    const drafts = await pool.query(
      `SELECT id, customer_id AS "customerId", total_cents AS "totalCents"
         FROM invoices WHERE series = $1 AND number IS NULL AND approved ORDER BY approved_at LIMIT 200`,
      [series],
    );
    for (const draft of drafts.rows as Draft[]) {
      const number = await inTransaction(async (tx) => {
        const n = await issue(tx, series, fence, draft);
        if (n === null) throw new StaleFence(`${draft.id} already has a number`);
        return n;
      });
      numbers.push(number);
    }
  } catch (err) {
    if (!(err instanceof StaleFence)) throw err;
    console.warn(err.message);
  } finally {
    await redis.eval(CLOSE, 1, lockKey, String(fence)).catch((e: Error) => console.warn('close:', e.message));
  }
  return numbers;
}
