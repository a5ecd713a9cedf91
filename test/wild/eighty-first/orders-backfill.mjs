import { Redis } from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';
import { BigQuery } from '@google-cloud/bigquery';

const redis = new Redis(process.env.REDIS_URL);
const redlock = new Redlock([redis], { retryCount: 0 });
redlock.on('error', () => {});

const table = new BigQuery().dataset('warehouse').table('orders_raw');
const CURSOR = 'backfill:orders:cursor';

async function* pages(from) {
  let cursor = from;
  for (;;) {
    const url = `${process.env.SHOP_API}/orders?limit=500&after=${encodeURIComponent(cursor ?? '')}`;
    const res = await fetch(url, { headers: { authorization: `Bearer ${process.env.SHOP_TOKEN}` } });
    if (res.status === 429) {
      const wait = Number(res.headers.get('retry-after') ?? 5);
      await new Promise((r) => setTimeout(r, wait * 1000));
      continue;
    }
    if (!res.ok) throw new Error(`shop api ${res.status}`);
    const body = await res.json();
    if (!body.orders.length) return;
    cursor = body.orders.at(-1).id;
    yield { orders: body.orders, cursor };
  }
}

export async function backfillOrders() {
  let lock;
  try {
    lock = await redlock.acquire(['backfill:orders'], 30_000);
  } catch (err) {
    if (err instanceof ExecutionError) {
      console.log('backfill is running elsewhere');
      return 0;
    }
    throw err;
  }

  let total = 0;
  try {
    const from = await redis.get(CURSOR);
    for await (const page of pages(from)) {
      await table.insert(page.orders.map((o) => ({ id: o.id, placed_at: o.placedAt, payload: JSON.stringify(o) })));
      await redis.set(CURSOR, page.cursor);
      total += page.orders.length;
      if (total % 10_000 === 0) console.log(`${total} orders so far`);
    }
    return total;
  } finally {
    await lock.release().catch((err) => console.warn('release', err.message));
  }
}

if (process.argv[1] === import.meta.filename) {
  const total = await backfillOrders();
  console.log(`loaded ${total} orders`);
  redis.disconnect();
}
