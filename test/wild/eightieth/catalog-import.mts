import type { ScheduledHandler } from 'aws-lambda';
import { Redis } from 'ioredis';
import Redlock from 'redlock5';
import postgres from 'postgres';

const redis = new Redis(process.env.REDIS_URL!);
const redlock = new Redlock([redis], { retryCount: 0 });
redlock.on('error', () => {});
const sql = postgres(process.env.DATABASE_URL!);

const LEASE_MS = 30_000;
const FEED = process.env.SUPPLIER_FEED!;

interface Page {
  items: { sku: string; title: string; stockDelta: number }[];
  cursor: string;
  more: boolean;
}

async function fetchPage(after: string): Promise<Page> {
  const res = await fetch(`${FEED}?after=${encodeURIComponent(after)}`, { signal: AbortSignal.timeout(20_000) });
  if (!res.ok) throw new Error(`feed answered ${res.status}`);
  return (await res.json()) as Page;
}

async function importFeed(): Promise<number> {
  let count = 0;
  const [state] = await sql`SELECT cursor FROM feed_state WHERE feed = ${FEED}`;
  let cursor: string = state?.cursor ?? '';
  for (;;) {
    const page = await fetchPage(cursor);
    await sql.begin(async (tx) => {
      for (const item of page.items) {
        await tx`
          INSERT INTO products (sku, title, stock) VALUES (${item.sku}, ${item.title}, ${item.stockDelta})
          ON CONFLICT (sku) DO UPDATE SET title = excluded.title, stock = products.stock + excluded.stock`;
      }
      await tx`
        INSERT INTO feed_state (feed, cursor) VALUES (${FEED}, ${page.cursor})
        ON CONFLICT (feed) DO UPDATE SET cursor = excluded.cursor`;
    });
    count += page.items.length;
    cursor = page.cursor;
    if (!page.more) return count;
  }
}

export const handler: ScheduledHandler = async () => {
  let lock;
  try {
    lock = await redlock.acquire(['lock:catalog-import'], LEASE_MS);
  } catch {
    console.log('import is already running');
    return;
  }

  const held = lock;
  const keepAlive = setInterval(() => {
    held.extend(LEASE_MS).catch((err: Error) => console.warn('could not extend the lock:', err.message));
  }, LEASE_MS / 3);

  try {
    // usually 5 to 10 minutes
    const n = await importFeed();
    console.log(`imported ${n} items`);
  } finally {
    clearInterval(keepAlive);
    await held.release().catch(() => {});
  }
};
