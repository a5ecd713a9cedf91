import Redis from 'ioredis';
import mysql, { type RowDataPacket } from 'mysql2/promise';
import Redlock from 'redlock5';

const nodes = ['redis-a', 'redis-b', 'redis-c'].map(
  (host) => new Redis({ host, port: 6379, maxRetriesPerRequest: 1 }),
);

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 0,
  automaticExtensionThreshold: 3_000,
});
redlock.on('error', (err) => console.warn('redlock', err.message));

const db = mysql.createPool({ uri: process.env.MYSQL_URL, connectionLimit: 4 });

const PAGE = 100;

interface AccountRow extends RowDataPacket {
  id: number;
}

async function postOne(accountId: number, day: string): Promise<boolean> {
  const conn = await db.getConnection();
  try {
    await conn.beginTransaction();
    // unique key on (account_id, day)
    await conn.execute(
      `INSERT INTO interest_postings (account_id, day, amount_cents)
       SELECT a.id, ?, ROUND(a.balance_cents * p.daily_rate)
         FROM accounts a JOIN products p ON p.id = a.product_id
        WHERE a.id = ?`,
      [day, accountId],
    );
    await conn.execute(
      `UPDATE accounts a
         JOIN interest_postings i ON i.account_id = a.id AND i.day = ?
          SET a.balance_cents = a.balance_cents + i.amount_cents
        WHERE a.id = ?`,
      [day, accountId],
    );
    await conn.commit();
    return true;
  } catch (err) {
    await conn.rollback();
    if ((err as { code?: string }).code === 'ER_DUP_ENTRY') return false;
    throw err;
  } finally {
    conn.release();
  }
}

export async function postInterest(branch: string, day: string): Promise<number> {
  return redlock.using([`interest:${branch}:${day}`], 15_000, async (signal) => {
    let posted = 0;
    let after = 0;
    for (;;) {
      const [accounts] = await db.execute<AccountRow[]>(
        `SELECT id FROM accounts
          WHERE branch = ? AND id > ? AND closed_at IS NULL
          ORDER BY id LIMIT ${PAGE}`,
        [branch, after],
      );
      if (accounts.length === 0) return posted;
      for (const account of accounts) {
        if (signal.aborted) {
          throw signal.error ?? new Error(`lost the lock for ${branch}`);
        }
        if (await postOne(account.id, day)) posted++;
        after = account.id;
      }
    }
  });
}
