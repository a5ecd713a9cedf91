#!/usr/bin/env node
'use strict';
const fs = require('node:fs/promises');
const path = require('node:path');
const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');
const { Client } = require('pg');

const LOCK_KEY = 'migrations:lock';
const LOCK_MS = 15 * 60 * 1000;
const DIR = path.join(__dirname, 'migrations');

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function pending(db) {
  await db.query('CREATE TABLE IF NOT EXISTS schema_log (name text, applied_at timestamptz DEFAULT now())');
  const { rows } = await db.query('SELECT name FROM schema_log');
  const done = new Set(rows.map((r) => r.name));
  const files = (await fs.readdir(DIR)).filter((f) => f.endsWith('.sql')).sort();
  return files.filter((f) => !done.has(f));
}

async function apply(db, file) {
  const sql = await fs.readFile(path.join(DIR, file), 'utf8');
  await db.query('BEGIN');
  try {
    await db.query(sql);
    await db.query('INSERT INTO schema_log (name) VALUES ($1)', [file]);
    await db.query('COMMIT');
  } catch (err) {
    await db.query('ROLLBACK');
    throw new Error(`${file}: ${err.message}`);
  }
}

async function main() {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (err) => console.error('redis', err.message));
  await redis.connect();

  const token = randomUUID();
  const locked = await redis.set(LOCK_KEY, token, { NX: true, PX: LOCK_MS });
  if (locked === false) {
    console.log('another instance is migrating, nothing to do');
    await redis.quit();
    return;
  }

  const db = new Client({ connectionString: process.env.DATABASE_URL, statement_timeout: 60000 });
  try {
    await db.connect();
    const files = await pending(db);
    for (const file of files) {
      console.log('applying', file);
      await apply(db, file);
    }
    console.log(`${files.length} migrations applied`);
  } finally {
    await db.end().catch(() => {});
    await redis.eval(UNLOCK, { keys: [LOCK_KEY], arguments: [token] });
    await redis.quit();
  }
}

main().catch((err) => {
  console.error(err);
  process.exitCode = 1;
});
