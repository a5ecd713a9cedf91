// Runs before the service starts: `node migrate-on-boot.mjs && node server.mjs`
import { readdir, readFile } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import 'dotenv/config';
import pg from 'pg';
import pino from 'pino';
import { createClient } from 'redis';

const log = pino({ name: 'migrate' });

const LOCK = `${process.env.APP_NAME ?? 'dispatch'}:schema-migration`;
const LOCK_TTL_MS = 30 * 60_000;
const BUDGET_MS = 20 * 60_000;
const ATTEMPTS = 40;
const PAUSE_MS = 3_000;
const DIR = new URL('./migrations/', import.meta.url);

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));
await redis.connect();

const db = new pg.Client({ connectionString: process.env.DATABASE_URL, statement_timeout: 5 * 60_000 });
await db.connect();

async function takeTurn() {
  const turn = randomUUID();
  for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
    const reply = await redis.set(LOCK, turn, { NX: true, PX: LOCK_TTL_MS });
    if (reply === 'OK') {
      log.info({ attempt }, 'our turn');
      break;
    }
    log.info({ attempt }, 'another pod is migrating');
    await sleep(PAUSE_MS);
  }
  return turn;
}

async function endTurn(turn) {
  await redis.eval(
    `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
    { keys: [LOCK], arguments: [turn] },
  );
}

async function pending() {
  await db.query('create table if not exists schema_history (name text primary key, applied_at timestamptz not null)');
  const { rows } = await db.query('select name from schema_history');
  const applied = new Set(rows.map((r) => r.name));
  const files = (await readdir(DIR)).filter((f) => f.endsWith('.sql')).sort();
  return files.filter((f) => !applied.has(f));
}

// One statement per file. No transaction around it, half of them are
// CREATE INDEX CONCURRENTLY or backfills.
async function apply(name) {
  const sql = await readFile(new URL(name, DIR), 'utf8');
  const began = Date.now();
  await db.query(sql);
  await db.query('insert into schema_history (name, applied_at) values ($1, now())', [name]);
  log.info({ name, ms: Date.now() - began }, 'applied');
}

const turn = await takeTurn();
const stopAt = Date.now() + BUDGET_MS;
try {
  for (const name of await pending()) {
    if (Date.now() > stopAt) throw new Error(`out of time before ${name}`);
    await apply(name);
  }
  log.info('schema is up to date');
} catch (err) {
  log.fatal({ err }, 'migration failed');
  process.exitCode = 1;
} finally {
  await endTurn(turn).catch((err) => log.warn({ err }, 'turn not ended'));
  await Promise.allSettled([db.end(), redis.quit()]);
}
