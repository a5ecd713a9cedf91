import Client from 'ioredis';
import Redlock, { ResourceLockedError } from 'redlock5';
import pg from 'pg';

const urls = (process.env.REDIS_NODES ?? 'redis://localhost:6379,redis://localhost:6380,redis://localhost:6381').split(',');
const nodes = urls.map((url) => new Client(url, { maxRetriesPerRequest: 1, enableOfflineQueue: false }));
for (const node of nodes) node.on('error', () => {});

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 20,
  retryDelay: 250,
  retryJitter: 150,
  automaticExtensionThreshold: 2_000,
});

redlock.on('error', (err: unknown) => {
  if (err instanceof ResourceLockedError) return;
  console.error('redlock:', err);
});

const pool = new pg.Pool();

export interface Feed {
  pages(): AsyncIterable<Array<{ sku: string; qty: number; revision: number }>>;
}

/**
 * Copies a supplier's stock feed into our table. One worker per supplier at a
 * time; redlock prolongs the lock while the feed is being read. Rows carry the
 * supplier's revision and never go back to an older one, so a worker that has
 * lost its lock in the middle of a page does no harm.
 */
export async function syncSupplier(supplier: string, feed: Feed): Promise<number> {
  return redlock.using([`lock:supplier:${supplier}`], 10_000, async (signal) => {
    let changed = 0;
    for await (const page of feed.pages()) {
      if (signal.aborted) {
        throw signal.error ?? new Error(`lock on ${supplier} was lost`);
      }
      changed += await writePage(supplier, page);
    }
    return changed;
  });
}

async function writePage(supplier: string, page: Array<{ sku: string; qty: number; revision: number }>): Promise<number> {
  const conn = await pool.connect();
  try {
    await conn.query('BEGIN');
    let changed = 0;
    for (const { sku, qty, revision } of page) {
      const res = await conn.query(
        `INSERT INTO stock (supplier, sku, qty, revision)
         VALUES ($1, $2, $3, $4)
         ON CONFLICT (supplier, sku) DO UPDATE
            SET qty = EXCLUDED.qty, revision = EXCLUDED.revision
          WHERE stock.revision < EXCLUDED.revision`,
        [supplier, sku, qty, revision],
      );
      changed += res.rowCount ?? 0;
    }
    await conn.query('COMMIT');
    return changed;
  } catch (err) {
    await conn.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    conn.release();
  }
}
