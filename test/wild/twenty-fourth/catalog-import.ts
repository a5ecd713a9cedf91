import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

const redis = new Redis({
  host: process.env.REDIS_HOST || 'localhost',
  port: +(process.env.REDIS_PORT || 6379),
  password: process.env.REDIS_PASSWORD,
  keyPrefix: 'catalog:',
});

const TTL = 30 * 1000;

interface Lock { key: string; token: string }

export interface ProductRow { sku: string; title: string; priceCents: number; stock: number }

export interface ProductTable {
  upsertMany(supplier: string, rows: ProductRow[]): Promise<void>;
  deleteNotIn(supplier: string, skus: Set<string>): Promise<number>;
}

async function acquire(name: string): Promise<Lock | null> {
  const lock = { key: `lock:${name}`, token: randomUUID() };
  const res = await redis.set(lock.key, lock.token, 'PX', TTL, 'NX');
  return res === 'OK' ? lock : null;
}

// Prolongs the lock. XX so that we never bring back a lock that has gone in the meantime.
async function extend(lock: Lock): Promise<boolean> {
  const res = await redis.set(lock.key, lock.token, 'PX', TTL, 'XX');
  return res === 'OK';
}

async function release(lock: Lock): Promise<void> {
  await redis.eval(
    `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`,
    1,
    lock.key,
    lock.token,
  );
}

function parseFeed(text: string): ProductRow[] {
  return text
    .split(/\r?\n/)
    .slice(1)
    .filter((line) => line.trim() !== '')
    .map((line, i) => {
      const [sku, title, price, stock] = line.split(';');
      if (!sku || Number.isNaN(Number(price))) throw new Error(`feed line ${i + 2} is malformed`);
      return { sku, title, priceCents: Math.round(Number(price) * 100), stock: Number(stock) };
    });
}

/** Big suppliers send 200-300 MB; a full import takes anything from seconds to half an hour. */
export async function importSupplier(supplier: string, feedUrl: string, table: ProductTable): Promise<string> {
  const lock = await acquire(`import:${supplier}`);
  if (!lock) return 'already running';

  const ctl = new AbortController();
  const heartbeat = setInterval(() => {
    extend(lock).then(
      (still) => { if (!still) ctl.abort(new Error(`import lock of ${supplier} lost`)); },
      (err) => ctl.abort(err),
    );
  }, TTL / 3);

  try {
    const res = await fetch(feedUrl, { signal: ctl.signal });
    if (!res.ok) throw new Error(`feed of ${supplier}: HTTP ${res.status}`);
    const rows = parseFeed(await res.text());

    for (let i = 0; i < rows.length; i += 1000) {
      ctl.signal.throwIfAborted();
      await table.upsertMany(supplier, rows.slice(i, i + 1000));
    }

    ctl.signal.throwIfAborted();
    const gone = await table.deleteNotIn(supplier, new Set(rows.map((r) => r.sku)));
    return `${rows.length} products, ${gone} removed`;
  } finally {
    clearInterval(heartbeat);
    await release(lock).catch((err) => console.error('release', supplier, err));
  }
}
