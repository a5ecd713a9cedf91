'use strict';

/**
 * Imports the supplier's catalogue (NDJSON) into the shop.
 *
 * The import replaces products and deletes those which are not in the file, so
 * two imports must not run at once. An import takes between five minutes and an
 * hour; the lock is short and is extended while the import runs.
 */

const fs = require('node:fs');
const readline = require('node:readline');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { upsertProducts, deleteNotIn } = require('./products.cjs');

const LOCK_TTL = 30_000;
const EXTEND_EVERY = 10_000;
const BATCH = 200;

const redis = new Redis(process.env.REDIS_URL);

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 5,
  retryDelay: 400,
  retryJitter: 200,
});

redlock.on('clientError', (err) => console.error('[redlock]', err.message));

async function* batches(path) {
  const lines = readline.createInterface({ input: fs.createReadStream(path), crlfDelay: Infinity });
  let batch = [];
  for await (const line of lines) {
    if (line.trim() === '') continue;
    batch.push(JSON.parse(line));
    if (batch.length === BATCH) {
      yield batch;
      batch = [];
    }
  }
  if (batch.length > 0) yield batch;
}

/** Takes the lock and keeps it alive until the returned function is called. */
async function holdLock(resource) {
  let lock = await redlock.lock(resource, LOCK_TTL);

  const timer = setInterval(async () => {
    try {
      lock = await lock.extend(LOCK_TTL);
    } catch (err) {
      console.warn(`could not extend ${resource}, will try again`, err.message);
    }
  }, EXTEND_EVERY);

  return async function release() {
    clearInterval(timer);
    try {
      await lock.unlock();
    } catch (err) {
      // the key has expired, or it will
      console.warn(`could not unlock ${resource}`, err.message);
    }
  };
}

async function importCatalog(supplier, path) {
  const release = await holdLock(`locks:catalog:${supplier}`);
  const started = Date.now();
  const seen = new Set();
  try {
    for await (const products of batches(path)) {
      await upsertProducts(supplier, products);
      for (const product of products) seen.add(product.sku);
    }
    const deleted = await deleteNotIn(supplier, seen);
    return { imported: seen.size, deleted, ms: Date.now() - started };
  } finally {
    await release();
  }
}

module.exports = { importCatalog };

if (require.main === module) {
  const [supplier, path] = process.argv.slice(2);
  importCatalog(supplier, path)
    .then((stats) => {
      console.log('catalogue imported', stats);
      process.exit(0);
    })
    .catch((err) => {
      console.error('import failed', err);
      process.exit(1);
    });
}
