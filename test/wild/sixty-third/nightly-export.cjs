'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock4');
const { pool } = require('./db.cjs');
const { openUpload } = require('./bucket.cjs');
const logger = require('./logger.cjs');

const EXPORT_NAME = 'orders-to-warehouse';
const RESOURCE = `locks:export:${EXPORT_NAME}`;
const BATCH_SIZE = 5000;

const QUERY_TIMEOUT_MS = 20_000;
const UPLOAD_TIMEOUT_MS = 30_000;
// Covers one batch (query and upload) with plenty of room; renewed for each batch.
const LOCK_TTL_MS = 120_000;

const client = new Redis(process.env.REDIS_URL, {
  commandTimeout: 2_000,
  maxRetriesPerRequest: 1,
});

const redlock = new Redlock([client], {
  driftFactor: 0.01,
  retryCount: 0,
});

redlock.on('clientError', (err) => logger.warn({ err }, 'redis error in export lock'));

async function readBatch(afterId) {
  const result = await pool.query({
    text: 'SELECT id, payload FROM order_events WHERE id > $1 ORDER BY id LIMIT $2',
    values: [afterId, BATCH_SIZE],
    query_timeout: QUERY_TIMEOUT_MS,
  });
  return result.rows;
}

async function readWatermark() {
  const result = await pool.query({
    text: 'SELECT last_id FROM export_state WHERE name = $1',
    values: [EXPORT_NAME],
    query_timeout: QUERY_TIMEOUT_MS,
  });
  return result.rows[0].last_id;
}

async function moveWatermark(from, to) {
  const result = await pool.query({
    text: 'UPDATE export_state SET last_id = $3 WHERE name = $1 AND last_id = $2',
    values: [EXPORT_NAME, from, to],
    query_timeout: QUERY_TIMEOUT_MS,
  });
  if (result.rowCount !== 1) {
    throw new Error(`watermark of ${EXPORT_NAME} is no longer ${from}`);
  }
}

async function exportAll(lock) {
  const start = await readWatermark();
  const upload = await openUpload(`${EXPORT_NAME}/${start}.ndjson`, {
    openTimeoutMs: UPLOAD_TIMEOUT_MS,
  });

  try {
    let last = start;
    for (;;) {
      // Rejects when the lock is not ours any more; that ends the export.
      await lock.extend(LOCK_TTL_MS);

      const rows = await readBatch(last);
      if (rows.length === 0) break;

      const body = rows.map((row) => JSON.stringify(row.payload)).join('\n') + '\n';
      await upload.write(body, { signal: AbortSignal.timeout(UPLOAD_TIMEOUT_MS) });
      last = rows[rows.length - 1].id;
    }

    if (last === start) {
      await upload.abort();
      return 0;
    }

    await lock.extend(LOCK_TTL_MS);
    await upload.complete({ signal: AbortSignal.timeout(UPLOAD_TIMEOUT_MS) });
    await moveWatermark(start, last);
    return last - start;
  } catch (err) {
    await upload.abort().catch((abortErr) => logger.warn({ err: abortErr }, 'upload not aborted'));
    throw err;
  }
}

async function main() {
  let lock;
  try {
    lock = await redlock.lock(RESOURCE, LOCK_TTL_MS);
  } catch (err) {
    if (err.name !== 'LockError') throw err;
    logger.info('export is running on another host');
    return;
  }

  try {
    const count = await exportAll(lock);
    logger.info({ count }, 'export done');
  } finally {
    await lock.unlock().catch((err) => logger.warn({ err }, 'export lock not released'));
  }
}

main()
  .catch((err) => {
    logger.error({ err }, 'export failed');
    process.exitCode = 1;
  })
  .finally(() => {
    client.disconnect();
    return pool.end();
  });
