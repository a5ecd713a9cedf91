'use strict';

const Redis = require('ioredis');
const Redlock = require('redlock4');
const knexFactory = require('knex');
const _ = require('lodash');
const log = require('pino')({ name: 'tariff-import' });
const { parseFeed } = require('./feed-parser');

const EVERY_MS = 15 * 60 * 1000;
const LOCK_TTL_MS = 30 * 1000;
const FETCH_TIMEOUT_MS = 15 * 1000;
const CHUNK_TIMEOUT_MS = 10 * 1000;

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2000, maxRetriesPerRequest: 1 });
redis.on('error', (err) => log.warn({ err }, 'redis'));

const knex = knexFactory({
  client: 'pg',
  connection: process.env.DATABASE_URL,
  // never queue for a connection longer than the lock allows
  acquireConnectionTimeout: 5000,
  pool: { min: 0, max: 4 },
});

// no retries: if another instance imports this carrier, we look again in 15 minutes
const redlock = new Redlock([redis], { retryCount: 0, driftFactor: 0.01 });
redlock.on('clientError', (err) => log.warn({ err }, 'redlock client'));

async function fetchFeed(carrier) {
  const res = await fetch(`${process.env.FEED_URL}/${carrier}/tariffs.csv`, {
    signal: AbortSignal.timeout(FETCH_TIMEOUT_MS),
  });
  if (!res.ok) throw new Error(`feed ${carrier}: HTTP ${res.status}`);
  const seq = Number(res.headers.get('x-feed-sequence'));
  if (!Number.isSafeInteger(seq)) throw new Error(`feed ${carrier}: no sequence`);
  return { seq, rows: parseFeed(await res.text()) };
}

async function upsertChunk(carrier, feed, rows) {
  await knex('tariffs')
    .insert(rows.map((r) => ({ carrier, zone: r.zone, price_cents: r.price, feed_seq: feed.seq })))
    .onConflict(['carrier', 'zone'])
    .merge(['price_cents', 'feed_seq'])
    // an older feed never overwrites a newer one, no matter who writes it, and when
    .where('tariffs.feed_seq', '<=', feed.seq)
    .timeout(CHUNK_TIMEOUT_MS, { cancel: true });
}

async function importCarrier(carrier) {
  let lock;
  try {
    lock = await redlock.lock(`lock:tariff-import:${carrier}`, LOCK_TTL_MS);
  } catch (err) {
    if (err.name === 'LockError') {
      log.info({ carrier }, 'import runs elsewhere (or redis is away), skipping');
      return;
    }
    throw err;
  }

  try {
    const feed = await fetchFeed(carrier);
    let done = 0;
    for (const rows of _.chunk(feed.rows, 200)) {
      // Full TTL again before each chunk. Rejects when the lock is no longer ours, which ends
      // the import here; the next run starts over from the newest feed.
      lock = await lock.extend(LOCK_TTL_MS);
      await upsertChunk(carrier, feed, rows);
      done += rows.length;
    }
    log.info({ carrier, seq: feed.seq, done }, 'tariffs imported');
  } finally {
    // unlock compares our value on the server, so a lock that moved on is left alone
    await lock.unlock().catch((err) => log.warn({ err, carrier }, 'unlock failed'));
  }
}

async function tick() {
  for (const carrier of (process.env.CARRIERS || 'dhl,dpd,gls').split(',')) {
    try {
      await importCarrier(carrier.trim());
    } catch (err) {
      log.error({ err, carrier }, 'import failed');
    }
  }
}

function start() {
  tick();
  const timer = setInterval(tick, EVERY_MS);
  return async function stop() {
    clearInterval(timer);
    await knex.destroy();
    redis.disconnect();
  };
}

module.exports = { start, importCarrier };
