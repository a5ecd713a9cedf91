'use strict';

const { Command } = require('commander');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Pool } = require('pg');
const axios = require('axios');
const pino = require('pino');

const log = pino({ name: 'catalog-reindex' });

const LEASE_MS = 90000;
const LOW_WATER_MS = 60000;
const CALL_MS = 15000;

const redis = new Redis(process.env.REDIS_URL);
const redlock = new Redlock([redis], { driftFactor: 0.01, retryCount: 0 });
redlock.on('clientError', (err) => log.warn({ err }, 'redis'));

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 5000,
  statement_timeout: 10000,
  query_timeout: 12000,
});

const search = axios.create({ baseURL: process.env.SEARCH_URL });

async function topUp(lock) {
  if (lock.expiration - Date.now() > LOW_WATER_MS) return lock;
  return lock.extend(LEASE_MS);
}

async function sendBatch(index, rows) {
  const lines = rows.flatMap((row) => [
    JSON.stringify({ index: { _index: index, _id: row.id } }),
    JSON.stringify({ title: row.title, brand: row.brand, price: row.price_cents }),
  ]);
  const { data } = await search.post('/_bulk', `${lines.join('\n')}\n`, {
    headers: { 'content-type': 'application/x-ndjson' },
    signal: AbortSignal.timeout(CALL_MS),
  });
  if (data.errors) throw new Error('bulk request had failing items');
}

async function reindex(catalog, batchSize) {
  let lock = await redlock.lock(`locks:reindex:${catalog}`, LEASE_MS);
  const index = `${catalog}-${Date.now()}`;
  let cursor = 0;
  let total = 0;
  try {
    for (;;) {
      lock = await topUp(lock);
      const { rows } = await pool.query(
        'SELECT id, title, brand, price_cents FROM products WHERE catalog = $1 AND id > $2 ORDER BY id LIMIT $3',
        [catalog, cursor, batchSize],
      );
      if (rows.length === 0) break;
      await sendBatch(index, rows);
      cursor = rows[rows.length - 1].id;
      total += rows.length;
    }

    lock = await topUp(lock);
    await search.post(
      '/_aliases',
      {
        actions: [
          { remove: { index: `${catalog}-*`, alias: catalog } },
          { add: { index, alias: catalog } },
        ],
      },
      { signal: AbortSignal.timeout(CALL_MS) },
    );
    log.info({ catalog, index, total }, 'alias moved');
  } finally {
    await lock.unlock().catch((err) => log.warn({ err }, 'unlock'));
  }
}

const program = new Command();
program
  .argument('<catalog>')
  .option('-b, --batch <n>', 'rows in a bulk request', (v) => parseInt(v, 10), 500)
  .action(async (catalog, opts) => {
    try {
      await reindex(catalog, opts.batch);
    } catch (err) {
      if (err.name === 'LockError') log.error({ catalog }, 'lock is held elsewhere or was lost');
      else log.error({ err, catalog }, 'reindex failed');
      process.exitCode = 1;
    } finally {
      await pool.end();
      redis.disconnect();
    }
  });

program.parseAsync(process.argv);
