'use strict';

const axios = require('axios');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Pool } = require('pg');

const client = new Redis(process.env.REDIS_URL);
client.on('error', (err) => console.error('redis', err.message));

const redlock = new Redlock([client], {
  driftFactor: 0.01,
  retryCount: 5,
  retryDelay: 400,
  retryJitter: 200,
});
redlock.on('clientError', (err) => console.error('redlock', err.message));

const pool = new Pool();
const api = axios.create({ baseURL: process.env.SUPPLIER_API, timeout: 30000 });

function fetchPage(cursor, tries) {
  return api.get('/movements', { params: { after: cursor, limit: 500 } }).then(
    (res) => res.data,
    (err) => {
      if (tries <= 1) throw err;
      return new Promise((r) => setTimeout(r, 2000)).then(() => fetchPage(cursor, tries - 1));
    }
  );
}

async function applyPage(supplier, page) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    for (const m of page.movements) {
      await db.query('UPDATE supplier_stock SET qty = qty + $3 WHERE supplier = $1 AND sku = $2', [
        supplier,
        m.sku,
        m.delta,
      ]);
    }
    await db.query(
      'INSERT INTO supplier_cursors (supplier, cursor) VALUES ($1, $2) ' +
        'ON CONFLICT (supplier) DO UPDATE SET cursor = EXCLUDED.cursor',
      [supplier, page.next]
    );
    await db.query('COMMIT');
  } catch (err) {
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

async function importAll(supplier) {
  const { rows } = await pool.query('SELECT cursor FROM supplier_cursors WHERE supplier = $1', [supplier]);
  let cursor = rows.length ? rows[0].cursor : '0';
  let count = 0;
  for (;;) {
    const page = await fetchPage(cursor, 3);
    if (page.movements.length === 0) break;
    await applyPage(supplier, page);
    count += page.movements.length;
    cursor = page.next;
  }
  return count;
}

function run(supplier) {
  return redlock.lock('locks:supplier-import:' + supplier, 8000).then((lock) =>
    importAll(supplier).then(
      (count) => lock.unlock().catch((e) => console.warn('unlock', e.message)).then(() => count),
      (err) =>
        lock.unlock().catch((e) => console.warn('unlock', e.message)).then(() => {
          throw err;
        })
    )
  );
}

const supplier = process.argv[2];
if (!supplier) {
  console.error('usage: supplier-import <supplier>');
  process.exit(64);
}

run(supplier)
  .then((count) => console.log('%s: %d movements', supplier, count))
  .catch((err) => {
    console.error('%s: %s', supplier, err.message);
    process.exitCode = 1;
  })
  .then(() => Promise.all([client.quit(), pool.end()]));
