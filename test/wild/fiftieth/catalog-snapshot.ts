import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';
import { Pool } from 'pg';

const redis = new Redis(process.env.REDIS_URL!, { maxRetriesPerRequest: 2 });
const pool = new Pool({
  connectionTimeoutMillis: 5_000,
  statement_timeout: 20_000,
  query_timeout: 25_000,
});

const LOCK_TTL_MS = 90_000;

// KEYS: lock, fence counter. Returns the fence number, or nil when somebody else has the lock.
const ACQUIRE = `
if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return false
end
local t = redis.call('time')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local last = tonumber(redis.call('get', KEYS[2]) or '0')
local fence = string.format('%.0f', math.max(now, last + 1))
redis.call('set', KEYS[2], fence)
return fence
`;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
`;

export type Outcome = 'published' | 'busy' | 'superseded';

interface ProductRow {
  sku: string;
  title: string;
  price_cents: number;
  currency: string;
}

function render(rows: ProductRow[]) {
  return rows.map((r) => ({
    sku: r.sku,
    title: r.title.trim(),
    price: { amount: r.price_cents / 100, currency: r.currency },
  }));
}

/** Rebuilds the public catalog document of one region. Called from the admin API and from a timer. */
export async function publishSnapshot(region: string): Promise<Outcome> {
  const lockKey = `{catalog:${region}}:lock`;
  const fenceKey = `{catalog:${region}}:fence`;
  const token = randomUUID();

  const fence = (await redis.eval(ACQUIRE, 2, lockKey, fenceKey, token, LOCK_TTL_MS)) as string | null;
  if (!fence) return 'busy';

  try {
    const { rows } = await pool.query<ProductRow>(
      `SELECT p.sku, p.title, pr.price_cents, pr.currency
         FROM products p
         JOIN prices pr ON pr.sku = p.sku
        WHERE pr.region = $1 AND p.active
        ORDER BY p.sku`,
      [region],
    );

    const res = await pool.query(
      `INSERT INTO catalog_snapshots (region, fence, body, built_at)
       VALUES ($1, $2::bigint, $3::jsonb, now())
       ON CONFLICT (region) DO UPDATE
          SET fence = EXCLUDED.fence, body = EXCLUDED.body, built_at = EXCLUDED.built_at
        WHERE catalog_snapshots.fence < EXCLUDED.fence`,
      [region, fence, JSON.stringify(render(rows))],
    );
    return res.rowCount === 1 ? 'published' : 'superseded';
  } finally {
    await redis.eval(RELEASE, 1, lockKey, token).catch((err: Error) => {
      console.warn({ region, err: err.message }, 'catalog lock release failed');
    });
  }
}
