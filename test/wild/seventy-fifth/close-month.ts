#!/usr/bin/env -S npx tsx
/*
 * Close a month in the ledger:  close-month --month 2025-03
 *
 * Started by hand, by the scheduler and (sometimes) by both. The lock keeps the second
 * one from doing minutes of work for nothing; the fence number in ledger_gate is
 * what keeps a run that overstayed its lock from writing after a newer one.
 */
import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import pg from 'pg';
import { createClient } from 'redis';

const LOCK = '{ledger}:close';
const FENCE = '{ledger}:close:fence'; // never expires, only counts up
const TTL_MS = 10 * 60_000;

// The number is handed out in the same step as the lock, so a later holder always has a higher one.
const ISSUE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0`;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const redis = createClient({ url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' });
redis.on('error', (err) => console.error('redis:', err.message));

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 1 });

class StaleRun extends Error {
  constructor(fence: number) {
    super(`run #${fence} came too late, a newer one has already been at the ledger`);
  }
}

async function closeMonth(month: string, fence: number): Promise<number> {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    // Takes the row lock until COMMIT; runs that overlap line up here.
    const gate = await db.query(
      `UPDATE ledger_gate SET fence = $1::bigint WHERE name = 'close' AND fence < $1::bigint`,
      [fence],
    );
    if (gate.rowCount !== 1) throw new StaleRun(fence);

    const open = await db.query('SELECT 1 FROM months WHERE month = $1 AND closed_at IS NULL', [month]);
    if (open.rowCount === 0) {
      await db.query('COMMIT');
      return 0; // somebody was faster
    }

    const closed = await db.query(
      `INSERT INTO month_closings (month, account_id, balance)
       SELECT $1::text, account_id, SUM(amount)
         FROM postings
        WHERE booked_on < to_date($1::text || '-01', 'YYYY-MM-DD') + interval '1 month'
        GROUP BY account_id
       ON CONFLICT (month, account_id) DO NOTHING`,
      [month],
    );
    await db.query('UPDATE months SET closed_at = now() WHERE month = $1 AND closed_at IS NULL', [month]);
    await db.query('COMMIT');
    return closed.rowCount ?? 0;
  } catch (err) {
    await db.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    db.release();
  }
}

async function main() {
  const { values } = parseArgs({ options: { month: { type: 'string' } } });
  if (!values.month || !/^\d{4}-(0[1-9]|1[0-2])$/.test(values.month)) {
    throw new Error('usage: close-month --month YYYY-MM');
  }

  await redis.connect();
  const owner = randomUUID();
  try {
    const fence = Number(
      await redis.eval(ISSUE, { keys: [LOCK, FENCE], arguments: [owner, String(TTL_MS)] }),
    );
    if (fence === 0) {
      console.log('another close is running, nothing to do');
      return;
    }
    console.log(`closing ${values.month} as run #${fence}`);
    const n = await closeMonth(values.month, fence);
    console.log(`${n} accounts closed`);
  } finally {
    await redis
      .eval(RELEASE, { keys: [LOCK], arguments: [owner] })
      .catch((err) => console.warn('lock not released, it will expire:', err.message));
  }
}

main()
  .catch((err) => {
    console.error(err);
    process.exitCode = 1;
  })
  .finally(async () => {
    await pool.end();
    if (redis.isOpen) await redis.disconnect();
  });
