// Nightly reindex of products into Elasticsearch.
// Runs on every app server (same crontab everywhere), the lock picks one.
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Client } = require('@elastic/elasticsearch');
const { Pool } = require('pg');

const LOCK_TTL = 60 * 1000; // ms
const BATCH = 500;

const redis = new Redis(process.env.REDIS_URL);
const redlock = new Redlock([redis], { driftFactor: 0.01, retryCount: 0 });
redlock.on('clientError', (err) => console.error('redlock:', err.message));

// one batch = one query + one bulk call, at most 30 s together, half of the lock
const pool = new Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 10 * 1000, connectionTimeoutMillis: 5000 });
const es = new Client({ node: process.env.ES_URL, requestTimeout: 15 * 1000, maxRetries: 0 });

async function indexBatch(rows) {
  const operations = [];
  for (const row of rows) {
    // rev goes up with each change of the product; ES keeps the newer document
    operations.push({ index: { _index: 'products', _id: row.id, version: row.rev, version_type: 'external_gte' } });
    operations.push(row.doc);
  }
  const res = await es.bulk({ operations });
  const failed = res.items.filter((item) => item.index.error && item.index.status !== 409);
  if (failed.length) {
    throw new Error(`${failed.length} documents refused, first: ${JSON.stringify(failed[0].index.error)}`);
  }
}

async function reindex() {
  let lock;
  try {
    lock = await redlock.lock('locks:reindex:products', LOCK_TTL);
  } catch (err) {
    if (err.name !== 'LockError') throw err;
    console.log('reindex: not for us tonight (%s)', err.message);
    return { skipped: true };
  }

  let lastId = 0;
  let count = 0;
  try {
    for (;;) {
      // full TTL again for each batch. If this throws, somebody else may be at it: stop.
      await lock.extend(LOCK_TTL);

      const { rows } = await pool.query(
        'SELECT id, rev, doc FROM product_search WHERE id > $1 ORDER BY id LIMIT $2',
        [lastId, BATCH]
      );
      if (rows.length === 0) break;
      await indexBatch(rows);

      lastId = rows[rows.length - 1].id;
      count += rows.length;
    }
    console.log('reindex: %d products', count);
    return { skipped: false, count };
  } finally {
    await lock.unlock().catch((err) => console.warn('reindex: unlock:', err.message));
  }
}

module.exports = { reindex };

if (require.main === module) {
  reindex()
    .catch((err) => {
      console.error('reindex failed', err);
      process.exitCode = 1;
    })
    .finally(() => Promise.all([pool.end(), redis.quit(), es.close()]));
}
