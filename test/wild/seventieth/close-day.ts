import Redis from 'ioredis';
import Redlock from 'redlock5';
import pg from 'pg';

// REDIS_NODES=redis://a:6379,redis://b:6379,redis://c:6379  (independent masters)
const nodes = (process.env.REDIS_NODES ?? 'redis://127.0.0.1:6379')
  .split(',')
  .map((url) => new Redis(url.trim(), { maxRetriesPerRequest: 1, commandTimeout: 500 }));

for (const node of nodes) {
  node.on('error', (err) => console.warn('redis node:', err.message));
}

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 20,
  retryDelay: 250,
  retryJitter: 150,
  automaticExtensionThreshold: 3_000,
});

redlock.on('error', (err: Error) => {
  if (err.name !== 'ResourceLockedError') console.warn('redlock:', err.message);
});

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });

/**
 * Writes the closing balance of every account for `day` (YYYY-MM-DD).
 *
 * ledger_close has PRIMARY KEY (account_id, day). A closing balance is a function of the
 * postings of past days, which no longer change, so a row written twice is the same row.
 */
export async function closeDay(day: string): Promise<number> {
  let written = 0;
  let finished = false;

  try {
    await redlock.using([`close-day:${day}`], 12_000, async (signal) => {
      const { rows } = await pool.query<{ id: string }>('SELECT id FROM accounts ORDER BY id');

      for (const { id } of rows) {
        if (signal.aborted) {
          throw signal.error ?? new Error('lock lost while closing the day');
        }
        const res = await pool.query(
          `INSERT INTO ledger_close (account_id, day, balance)
           SELECT $1, $2::date, COALESCE(SUM(amount), 0)
             FROM postings
            WHERE account_id = $1 AND posted_on <= $2::date
           ON CONFLICT (account_id, day) DO NOTHING`,
          [id, day],
        );
        written += res.rowCount ?? 0;
      }
      finished = true;
    });
  } catch (err) {
    // all rows are in: a release that failed only means the lock goes with its ttl
    if (!finished) throw err;
    console.warn(`close-day ${day}: release failed:`, (err as Error).message);
  }
  return written;
}

if (process.argv[2]) {
  closeDay(process.argv[2])
    .then((n) => console.log(`closed ${process.argv[2]}: ${n} new rows`))
    .catch((err) => {
      console.error(err);
      process.exitCode = 1;
    })
    .finally(async () => {
      await pool.end();
      for (const node of nodes) node.disconnect();
    });
}
