#!/usr/bin/env node
import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import Redis from 'ioredis';
import pg from 'pg';
import { slugify } from '../lib/slugify.mjs';

const LOCK_KEY = 'lock:cli:backfill-slugs';
const LOCK_TTL_MS = 30_000;
const RENEW_MS = 8_000;

const RENEW = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0`;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

const { values } = parseArgs({ options: { batch: { type: 'string', default: '500' } } });
const batchSize = Number(values.batch);

const redis = new Redis(process.env.REDIS_URL, { commandTimeout: 2_000, maxRetriesPerRequest: 1 });
redis.on('error', (err) => console.error('redis:', err.message));
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 10_000 });

const abort = new AbortController();
for (const sig of ['SIGINT', 'SIGTERM']) {
  process.once(sig, () => abort.abort(new Error(`received ${sig}`)));
}

function keepAlive(token) {
  let stopped = false;
  let timer;
  const tick = async () => {
    try {
      const renewed = await redis.eval(RENEW, 1, LOCK_KEY, token, LOCK_TTL_MS);
      if (renewed !== 1 && !stopped) abort.abort(new Error('lock was lost'));
    } catch (err) {
      if (!stopped) abort.abort(new Error('lock could not be renewed', { cause: err }));
    }
    if (!stopped && !abort.signal.aborted) timer = setTimeout(tick, RENEW_MS);
  };
  timer = setTimeout(tick, RENEW_MS);
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}

async function backfill(signal) {
  let lastId = 0;
  let written = 0;
  for (;;) {
    signal.throwIfAborted();
    const { rows } = await pool.query(
      'SELECT id, title FROM articles WHERE slug IS NULL AND id > $1 ORDER BY id LIMIT $2',
      [lastId, batchSize],
    );
    if (rows.length === 0) return written;

    for (const row of rows) {
      signal.throwIfAborted();
      const slug = `${slugify(row.title)}-${row.id}`;
      const result = await pool.query('UPDATE articles SET slug = $1 WHERE id = $2 AND slug IS NULL', [slug, row.id]);
      written += result.rowCount;
    }
    lastId = Number(rows[rows.length - 1].id);
    console.log(`up to article ${lastId}, ${written} written`);
  }
}

async function main() {
  if (!Number.isInteger(batchSize) || batchSize < 1) throw new Error('--batch must be a positive integer');

  const token = randomUUID();
  const reply = await redis.set(LOCK_KEY, token, 'PX', LOCK_TTL_MS, 'NX');
  if (reply !== 'OK') {
    console.error('backfill is already running on another machine');
    process.exitCode = 2;
    return;
  }

  const stop = keepAlive(token);
  try {
    const written = await backfill(abort.signal);
    console.log(`done, ${written} slugs written`);
  } finally {
    stop();
    await redis.eval(RELEASE, 1, LOCK_KEY, token).catch((err) => console.error('release:', err.message));
  }
}

try {
  await main();
} catch (err) {
  console.error(err);
  process.exitCode = 1;
} finally {
  redis.disconnect();
  await pool.end();
}
