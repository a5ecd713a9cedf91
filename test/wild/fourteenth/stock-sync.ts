import { Redis } from 'ioredis';
import { ExecutionError, Redlock } from '@sesamecare-oss/redlock';
import type { Lock } from '@sesamecare-oss/redlock';

type Snapshot = { takenAt: string; items: { sku: string; quantity: number }[] };

export interface StockDb {
  query(sql: string, params: unknown[]): Promise<{ rowCount: number }>;
}

const LOCK_MS = 60_000;
const SPARE_MS = 5_000;

const servers = (process.env.REDIS_SERVERS ?? 'redis://localhost:6379').split(',');
const clients = servers.map((url) => {
  const c = new Redis(url, { commandTimeout: 500, maxRetriesPerRequest: 1 });
  c.on('error', (e) => console.warn(`[stock] ${url}: ${e.message}`));
  return c;
});

const redlock = new Redlock(clients, { retryCount: 2, retryDelay: 300, retryJitter: 200 });

async function take(name: string): Promise<Lock | undefined> {
  try {
    return await redlock.acquire([name], LOCK_MS);
  } catch (err) {
    if (err instanceof ExecutionError) return undefined;
    throw err;
  }
}

export async function syncWarehouse(db: StockDb, warehouse: string): Promise<number> {
  const lock = await take(`stock-sync:${warehouse}`);
  if (!lock) return 0;

  let changed = 0;
  try {
    const left = lock.expiration - Date.now() - SPARE_MS;
    if (left <= 0) return 0;
    const signal = AbortSignal.timeout(left);

    const res = await fetch(`${process.env.WMS_URL}/warehouses/${warehouse}/stock`, { signal });
    if (!res.ok) throw new Error(`WMS answered ${res.status} for ${warehouse}`);
    const snapshot = (await res.json()) as Snapshot;

    for (const item of snapshot.items) {
      signal.throwIfAborted();
      // The clock of the WMS orders the snapshots.
      const { rowCount } = await db.query(
        `UPDATE stock SET quantity = $3, as_of = $4
          WHERE warehouse = $1 AND sku = $2 AND as_of < $4`,
        [warehouse, item.sku, item.quantity, snapshot.takenAt],
      );
      changed += rowCount;
    }
    return changed;
  } finally {
    await lock.release().catch((err) => console.warn(`[stock] release of ${warehouse}`, err));
  }
}

export function startStockSync(db: StockDb, warehouses: string[], everyMs = 5 * 60_000): () => void {
  let running = false;
  const timer = setInterval(() => {
    if (running) return;
    running = true;
    (async () => {
      for (const w of warehouses) {
        try {
          const n = await syncWarehouse(db, w);
          if (n > 0) console.info(`[stock] ${w}: ${n} items`);
        } catch (err) {
          console.error(`[stock] ${w}`, err);
        }
      }
    })().finally(() => {
      running = false;
    });
  }, everyMs);
  return () => clearInterval(timer);
}
