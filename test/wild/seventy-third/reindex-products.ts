import { Client as Elastic } from '@elastic/elasticsearch';
import Redis from 'ioredis';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';
import { db } from '../db';
import { config } from './config';

interface ProductRow {
  id: string;
  row_version: number;
  doc: Record<string, unknown>;
}

const nodes = config.lockNodes.map(
  (url: string) => new Redis(url, { maxRetriesPerRequest: 1, commandTimeout: 500 }),
);

const redlock = new Redlock(nodes, {
  retryCount: 0,
  automaticExtensionThreshold: 5_000,
});

redlock.on('error', (err: unknown) => {
  if (err instanceof ResourceLockedError) return;
  console.error('redlock:', err);
});

const elastic = new Elastic({ node: config.elasticUrl });
const PAGE = 500;

async function indexPage(rows: ProductRow[]): Promise<void> {
  const { items, errors } = await elastic.bulk({
    operations: rows.flatMap((r) => [
      // external_gte: an older copy of a product never replaces a newer one
      { index: { _index: 'products', _id: r.id, version: r.row_version, version_type: 'external_gte' } },
      r.doc,
    ]),
  });
  if (!errors) return;
  const bad = items.find((i) => i.index?.error && i.index.status !== 409);
  if (bad) throw new Error(`bulk item ${bad.index?._id}: ${bad.index?.error?.reason}`);
}

/** Full pass over the catalogue. Resolves to false if another worker is at it. */
export async function reindexProducts(): Promise<boolean> {
  let started = false;
  try {
    await redlock.using(['reindex:products'], 30_000, async (signal) => {
      started = true;
      let after = '';
      for (;;) {
        if (signal.aborted) throw signal.error;
        const rows: ProductRow[] = await db.any(
          'SELECT id, row_version, doc FROM product_docs WHERE id > $1 ORDER BY id LIMIT $2',
          [after, PAGE],
        );
        if (rows.length === 0) return;
        if (signal.aborted) throw signal.error;
        await indexPage(rows);
        after = rows[rows.length - 1].id;
      }
    });
    return true;
  } catch (err) {
    if (!started && err instanceof ExecutionError) return false;
    throw err;
  }
}
