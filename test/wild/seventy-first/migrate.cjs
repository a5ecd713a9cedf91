'use strict';
/**
 * Applies the SQL files in ./migrations. Every pod runs this in its init container,
 * so one of them has to win and the others wait until it is through.
 */
const fs = require('node:fs/promises');
const path = require('node:path');
const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');
const { Client } = require('pg');

const LOCK = `migrations:${process.env.APP_NAME || 'app'}`;
const STALE_AFTER = Number(process.env.MIGRATION_LOCK_MS || 60000);
const owner = `${process.env.HOSTNAME || 'local'}#${randomUUID()}`;

const REPLACE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
  return 1
end
return 0`;

const REMOVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const stamp = () => JSON.stringify({ owner, expiresAt: Date.now() + STALE_AFTER });
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function acquire(redis) {
  for (;;) {
    const value = stamp();
    if (await redis.setNX(LOCK, value)) {
      return value;
    }
    const current = await redis.get(LOCK);
    if (current) {
      const holder = JSON.parse(current);
      if (holder.expiresAt < Date.now()) {
        // pod was evicted in the middle of a migration
        console.warn(`[migrate] lock of ${holder.owner} is stale, taking over`);
        await redis.del(LOCK);
        continue;
      }
      console.log(`[migrate] waiting for ${holder.owner}`);
    }
    await sleep(1000);
  }
}

async function applyPending(db, stillOurs) {
  await db.query(
    `CREATE TABLE IF NOT EXISTS schema_migrations (name text PRIMARY KEY, applied_at timestamptz DEFAULT now())`
  );
  const dir = path.join(__dirname, 'migrations');
  const files = (await fs.readdir(dir)).filter((f) => f.endsWith('.sql')).sort();
  const { rows } = await db.query('SELECT name FROM schema_migrations');
  const applied = new Set(rows.map((r) => r.name));

  for (const file of files) {
    if (applied.has(file)) continue;
    if (!stillOurs()) throw new Error('migration lock lost');
    console.log(`[migrate] ${file}`);
    // not in a transaction: CREATE INDEX CONCURRENTLY does not like it
    await db.query(await fs.readFile(path.join(dir, file), 'utf8'));
    await db.query('INSERT INTO schema_migrations (name) VALUES ($1)', [file]);
  }
}

async function main() {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (err) => console.error('[migrate] redis', err.message));
  await redis.connect();

  let value = await acquire(redis);
  let ours = true;
  let renewing = Promise.resolve();
  const renew = async () => {
    const next = stamp();
    try {
      const ok = await redis.eval(REPLACE, { keys: [LOCK], arguments: [value, next] });
      if (ok === 1) value = next;
      else ours = false;
    } catch (err) {
      console.error('[migrate] renew', err.message);
    }
  };
  const timer = setInterval(() => { renewing = renewing.then(renew); }, STALE_AFTER / 4);

  const db = new Client({ connectionString: process.env.DATABASE_URL });
  try {
    await db.connect();
    await applyPending(db, () => ours && JSON.parse(value).expiresAt > Date.now());
  } finally {
    clearInterval(timer);
    await renewing;
    await redis.eval(REMOVE, { keys: [LOCK], arguments: [value] });
    await db.end();
    await redis.quit();
  }
}

if (require.main === module) {
  main().catch((err) => {
    console.error('[migrate] failed', err);
    process.exit(1);
  });
}

module.exports = { acquire, applyPending };
