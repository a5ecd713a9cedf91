#!/usr/bin/env node
// Runs the SQL migrations at the start of a deployment. Every pod of the rollout calls this,
// one does the work and the rest wait until there is nothing left to do.
import { randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';
import pg from 'pg';

const DIR = process.env.MIGRATIONS_DIR ?? path.resolve('migrations');
const KEY = `migrate:${process.env.APP_NAME ?? 'app'}`;
const LEASE = 30_000;
const PATIENCE = Number(process.env.MIGRATE_WAIT_MS ?? 10 * 60_000);

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (e) => console.error('redis:', e.message));

const lua = {
  extend: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end`,
  release: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`,
};

async function lock() {
  const token = randomUUID();
  const until = Date.now() + PATIENCE;
  let said = false;
  while (Date.now() < until) {
    const at = Date.now();
    const ok = await redis.set(KEY, token, { NX: true, PX: LEASE });
    if (ok === 'OK') return { token, lost: false, validUntil: at + LEASE };
    if (!said) console.log('another pod is migrating, waiting');
    said = true;
    await sleep(1000);
  }
  throw new Error('gave up waiting for the migration lock');
}

function keepAlive(lease) {
  const timer = setInterval(async () => {
    const at = Date.now();
    try {
      const ok = await redis.eval(lua.extend, { keys: [KEY], arguments: [lease.token, String(LEASE)] });
      if (ok === 1) lease.validUntil = at + LEASE;
      else lease.lost = true;
    } catch (e) {
      console.warn('could not extend the lock:', e.message);
    }
  }, LEASE / 4);
  return () => clearInterval(timer);
}

const held = (lease) => !lease.lost && Date.now() < lease.validUntil - 2000;

async function apply(db, name) {
  const sql = await readFile(path.join(DIR, name), 'utf8');
  await db.query('BEGIN');
  try {
    // Goes first on purpose. name is the primary key, so a second runner blocks on this
    // line until the first one commits, and then inserts nothing.
    const { rowCount } = await db.query(
      'INSERT INTO schema_migrations (name) VALUES ($1) ON CONFLICT (name) DO NOTHING',
      [name],
    );
    if (rowCount === 0) {
      await db.query('ROLLBACK');
      return false;
    }
    await db.query(sql);
    await db.query('COMMIT');
    return true;
  } catch (e) {
    await db.query('ROLLBACK').catch(() => {});
    e.message = `${name}: ${e.message}`;
    throw e;
  }
}

async function main() {
  await redis.connect();
  const lease = await lock();
  const stop = keepAlive(lease);
  const db = new pg.Client({ connectionString: process.env.DATABASE_URL });
  try {
    await db.connect();
    await db.query(
      'CREATE TABLE IF NOT EXISTS schema_migrations (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())',
    );
    const { rows } = await db.query('SELECT name FROM schema_migrations');
    const seen = new Set(rows.map((r) => r.name));
    const files = (await readdir(DIR)).filter((f) => f.endsWith('.sql')).sort();
    for (const name of files) {
      if (seen.has(name)) continue;
      if (!held(lease)) throw new Error('migration lock lost, not going on');
      console.log((await apply(db, name)) ? `applied ${name}` : `skipped ${name}`);
    }
  } finally {
    stop();
    await db.end().catch(() => {});
    await redis
      .eval(lua.release, { keys: [KEY], arguments: [lease.token] })
      .catch((e) => console.warn('lock not released, it expires by itself:', e.message));
  }
}

main()
  .catch((e) => {
    console.error('migration failed:', e.message);
    process.exitCode = 1;
  })
  .finally(() => redis.quit().catch(() => {}));
