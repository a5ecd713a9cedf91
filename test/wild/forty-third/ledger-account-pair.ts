import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { performance } from 'node:perf_hooks';
import Redis from 'ioredis';
import { Pool } from 'pg';

/*
 * Internal transfers touch two accounts. Both account locks are taken in one script, so there
 * is no lock order to get wrong. The {ledger} hash tag keeps them on one slot.
 */
const LOCK_MS = 30_000;
const BUDGET_MS = 20_000; // nothing is committed later than this
const WAIT_MS = 4_000;

const TAKE = `
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then return 0 end
end
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
return 1`;

const GIVE_BACK = `
local n = 0
for i = 1, #KEYS do
  if redis.call('GET', KEYS[i]) == ARGV[1] then n = n + redis.call('DEL', KEYS[i]) end
end
return n`;

const redis = new Redis(process.env.REDIS_URL!);
const pool = new Pool({
  connectionString: process.env.LEDGER_DSN,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 2_000,
  query_timeout: 2_500,
  idle_in_transaction_session_timeout: 3_000,
});

export interface Transfer {
  id: string; // unique in journal
  from: string;
  to: string;
  cents: bigint;
}

export class AccountBusyError extends Error {}

async function takePair(keys: string[], token: string): Promise<number> {
  const giveUpAt = performance.now() + WAIT_MS;
  for (;;) {
    const askedAt = performance.now();
    if ((await redis.eval(TAKE, keys.length, ...keys, token, LOCK_MS)) === 1) return askedAt + BUDGET_MS;
    if (performance.now() > giveUpAt) throw new AccountBusyError(keys.join(' / '));
    await sleep(40 + Math.random() * 60);
  }
}

export async function transfer(t: Transfer): Promise<void> {
  if (t.from === t.to) throw new RangeError('from and to are the same account');
  const keys = [`{ledger}:acct:${t.from}`, `{ledger}:acct:${t.to}`];
  const token = randomUUID();
  const deadline = await takePair(keys, token);
  try {
    await post(t, deadline);
  } finally {
    await redis.eval(GIVE_BACK, keys.length, ...keys, token).catch((err) => {
      console.error('could not release account pair', { transfer: t.id, err });
    });
  }
}

async function post(t: Transfer, deadline: number): Promise<void> {
  const db = await pool.connect();
  let broken: Error | undefined;
  try {
    await db.query('BEGIN');
    const debit = await db.query(
      'UPDATE account SET balance = balance - $2 WHERE id = $1 AND balance >= $2',
      [t.from, t.cents],
    );
    if (debit.rowCount !== 1) throw new Error('insufficient funds');
    await db.query('UPDATE account SET balance = balance + $2 WHERE id = $1', [t.to, t.cents]);
    await db.query('INSERT INTO journal (id, debit, credit, cents) VALUES ($1, $2, $3, $4)', [t.id, t.from, t.to, t.cents]);
    if (performance.now() > deadline) throw new Error('transfer ran out of time');
    await db.query('COMMIT');
  } catch (err) {
    broken = err as Error;
    await db.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    db.release(broken);
  }
}
