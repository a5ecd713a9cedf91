import Client from 'ioredis';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';
import { Pool } from 'pg';

const pool = new Pool();
const redis = new Client(process.env.REDIS_URL!, {
  commandTimeout: 400,
  maxRetriesPerRequest: 1,
});
redis.on('error', (err) => console.error('[redis]', err.message));

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 3,
  retryDelay: 150,
  retryJitter: 100,
  automaticExtensionThreshold: 5_000,
});

// ResourceLockedError is normal contention, everything else is worth a line in the log.
redlock.on('error', (err) => {
  if (err instanceof ResourceLockedError) return;
  console.error('[redlock]', err);
});

export class AccountBusyError extends Error {}
export class ConflictError extends Error {}

export interface Transfer {
  id: string;
  from: string;
  to: string;
  cents: number;
}

interface Account {
  id: string;
  balance: string;
  version: number;
}

/**
 * Moves money between two accounts.
 *
 * The lock keeps two transfers on the same account from paying for the (slow,
 * metered) risk check only to collide afterwards. Consistency itself rests on
 * the `version` column and on the primary key of `transfers`.
 */
export async function transfer(t: Transfer): Promise<{ id: string }> {
  if (t.from === t.to) throw new TypeError('from and to must differ');
  if (!Number.isSafeInteger(t.cents) || t.cents <= 0) throw new TypeError('bad amount');
  const ids = [t.from, t.to].sort();
  let entered = false;
  let receipt: { id: string } | undefined;

  try {
    await redlock.using(
      ids.map((id) => `lock:account:${id}`),
      15_000,
      async (signal) => {
        entered = true;
        const { rows } = await pool.query<Account>(
          'SELECT id, balance, version FROM accounts WHERE id = ANY($1)',
          [ids],
        );
        const byId = new Map(rows.map((r) => [r.id, r]));
        const from = byId.get(t.from);
        if (!from || !byId.has(t.to)) throw new Error('unknown account');
        if (BigInt(from.balance) < BigInt(t.cents)) throw new Error('insufficient funds');

        await riskCheck(t, signal as AbortSignal);
        if (signal.aborted) throw signal.error ?? new Error('lock lost');

        receipt = await commit(t, ids, byId);
      },
    );
  } catch (err) {
    // A release that failed does not undo a committed transfer.
    if (receipt) {
      console.warn('transfer %s committed, but releasing the lock failed', t.id, err);
      return receipt;
    }
    if (!entered && err instanceof ExecutionError) throw new AccountBusyError(t.from);
    throw err;
  }
  return receipt!;
}

async function commit(t: Transfer, ids: string[], accounts: Map<string, Account>) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    await db.query(
      'INSERT INTO transfers (id, from_id, to_id, cents) VALUES ($1, $2, $3, $4)',
      [t.id, t.from, t.to, t.cents],
    );
    for (const id of ids) {
      const delta = id === t.from ? -t.cents : t.cents;
      const res = await db.query(
        `UPDATE accounts SET balance = balance + $1, version = version + 1
          WHERE id = $2 AND version = $3`,
        [delta, id, accounts.get(id)!.version],
      );
      if (res.rowCount !== 1) throw new ConflictError(`account ${id} changed meanwhile`);
    }
    await db.query('COMMIT');
    return { id: t.id };
  } catch (err) {
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

async function riskCheck(t: Transfer, signal: AbortSignal): Promise<void> {
  const res = await fetch(`${process.env.RISK_URL}/check`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(t),
    signal: AbortSignal.any([signal, AbortSignal.timeout(30_000)]),
  });
  if (!res.ok) throw new Error(`risk check refused: ${res.status}`);
}
