'use strict';

require('dotenv').config();
const { readdir, readFile } = require('node:fs/promises');
const path = require('node:path');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { Client } = require('pg');
const { createClient } = require('redis');
const pino = require('pino');

const log = pino({ name: 'migrate' });

const MIGRATIONS_DIR = path.join(__dirname, 'migrations');
const LOCK_KEY = 'billing:migrations:lock';
// A pod that is OOM-killed half way gives way to the next one after ten minutes.
const LOCK_TTL = 10 * 60 * 1000;
const MAX_WAIT = 15 * 60 * 1000;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function lockMigrations(redis) {
  const token = randomUUID();
  const deadline = Date.now() + MAX_WAIT;
  while (Date.now() < deadline) {
    const reply = await redis.set(LOCK_KEY, token, { NX: true, EX: LOCK_TTL });
    if (reply === 'OK') return token;
    log.info('another pod is migrating, waiting');
    await sleep(3000);
  }
  throw new Error(`could not get ${LOCK_KEY} within ${MAX_WAIT / 60000} minutes`);
}

async function pendingMigrations(db) {
  await db.query('create table if not exists schema_migrations (name text primary key, applied_at timestamptz default now())');
  const { rows } = await db.query('select name from schema_migrations');
  const applied = new Set(rows.map((r) => r.name));
  const files = (await readdir(MIGRATIONS_DIR)).filter((f) => f.endsWith('.sql')).sort();
  return files.filter((f) => !applied.has(f));
}

async function apply(db, name) {
  const sql = await readFile(path.join(MIGRATIONS_DIR, name), 'utf8');
  await db.query('begin');
  try {
    // first the name: should two runners ever meet, the primary key stops the second one
    await db.query('insert into schema_migrations (name) values ($1)', [name]);
    await db.query(sql);
    await db.query('commit');
    log.info({ name }, 'applied');
  } catch (err) {
    await db.query('rollback').catch(() => {});
    throw err;
  }
}

async function migrate() {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (err) => log.warn({ err: err.message }, 'redis'));
  await redis.connect();
  const db = new Client({ connectionString: process.env.DATABASE_URL });
  try {
    await db.connect();
    const token = await lockMigrations(redis);
    try {
      const pending = await pendingMigrations(db);
      for (const name of pending) await apply(db, name);
      log.info({ count: pending.length }, 'schema is up to date');
    } finally {
      await redis.eval(UNLOCK, { keys: [LOCK_KEY], arguments: [token] });
    }
  } finally {
    await db.end().catch(() => {});
    await redis.quit().catch(() => {});
  }
}

migrate()
  .then(() => require('./server').start())
  .catch((err) => {
    log.fatal({ err }, 'boot failed');
    process.exit(1);
  });
