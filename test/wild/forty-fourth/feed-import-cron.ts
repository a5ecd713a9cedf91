import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import axios from 'axios';
import { parse } from 'csv-parse/sync';
import cron from 'node-cron';
import { Pool } from 'pg';
import pino from 'pino';
import { createClient } from 'redis';

const log = pino({ name: 'feed-import' });
const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 20_000, query_timeout: 25_000 });
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));

const MAX_RUN_MS = 8 * 60_000; // an import stops itself after this
const STALE_AFTER_MS = 20 * 60_000;
const BATCH = 500;

interface RunInfo {
  token: string;
  host: string;
  staleAt: number;
}

const UNLOCK = `
local raw = redis.call('GET', KEYS[1])
if raw and cjson.decode(raw).token == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const lockKey = (supplier: string) => `feed-import:${supplier}`;

// The entry has no TTL so that the admin page can show a run that died, with the
// host it died on; the next run clears it away once it is stale.
async function tryLock(supplier: string): Promise<string | null> {
  const key = lockKey(supplier);
  const mine: RunInfo = { token: randomUUID(), host: hostname(), staleAt: Date.now() + STALE_AFTER_MS };

  if ((await redis.set(key, JSON.stringify(mine), { NX: true })) === 'OK') return mine.token;

  const raw = await redis.get(key);
  if (raw !== null) {
    const other = JSON.parse(raw) as RunInfo;
    if (Date.now() < other.staleAt) return null;
    log.warn({ supplier, host: other.host, staleAt: other.staleAt }, 'clearing run that never finished');
    await redis.del(key);
  }
  return (await redis.set(key, JSON.stringify(mine), { NX: true })) === 'OK' ? mine.token : null;
}

interface FeedRow {
  sku: string;
  ean: string;
  stock: string;
  price: string;
}

async function importFeed(supplier: string, url: string): Promise<void> {
  const stopAt = Date.now() + MAX_RUN_MS;
  const { data } = await axios.get<string>(url, { responseType: 'text', timeout: 90_000 });
  const rows: FeedRow[] = parse(data, { columns: true, delimiter: ';', skip_empty_lines: true });
  if (rows.length === 0) throw new Error('feed is empty');

  const { rows: [run] } = await pool.query<{ id: string }>(
    'INSERT INTO import_runs (supplier, row_count) VALUES ($1, $2) RETURNING id',
    [supplier, rows.length],
  );

  for (let i = 0; i < rows.length; i += BATCH) {
    if (Date.now() > stopAt) throw new Error(`out of time after ${i} rows`);
    const part = rows.slice(i, i + BATCH);
    await pool.query(
      `INSERT INTO offers (supplier, sku, ean, stock, price_cents, last_run_id)
       SELECT $1, t.sku, t.ean, t.stock, t.price, $2
         FROM unnest($3::text[], $4::text[], $5::int[], $6::int[]) AS t(sku, ean, stock, price)
       ON CONFLICT (supplier, sku) DO UPDATE SET
         stock = excluded.stock, price_cents = excluded.price_cents, last_run_id = excluded.last_run_id, active = true`,
      [supplier, run.id, part.map((r) => r.sku), part.map((r) => r.ean), part.map((r) => Number(r.stock)), part.map((r) => Math.round(Number(r.price) * 100))],
    );
  }

  // What this run has not touched is no longer in the feed. Must not run next to
  // another import of the supplier, it would switch off what that one has touched.
  const gone = await pool.query('UPDATE offers SET active = false WHERE supplier = $1 AND active AND last_run_id <> $2', [supplier, run.id]);
  await pool.query('UPDATE import_runs SET finished_at = now(), deactivated = $2 WHERE id = $1', [run.id, gone.rowCount]);
  log.info({ supplier, rows: rows.length, deactivated: gone.rowCount }, 'feed imported');
}

export async function runImport(supplier: string, url: string): Promise<void> {
  const token = await tryLock(supplier);
  if (token === null) return log.info({ supplier }, 'import is running');
  try {
    await importFeed(supplier, url);
  } catch (err) {
    log.error({ err, supplier }, 'import failed');
  } finally {
    await redis.eval(UNLOCK, { keys: [lockKey(supplier)], arguments: [token] }).catch((err) => log.warn({ err, supplier }, 'unlock failed'));
  }
}

export async function start(suppliers: Array<{ name: string; feedUrl: string }>) {
  await redis.connect();
  for (const s of suppliers) {
    cron.schedule('*/15 * * * *', () => void runImport(s.name, s.feedUrl).catch((err) => log.error({ err }, 'import')));
  }
}
