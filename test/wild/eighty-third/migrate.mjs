#!/usr/bin/env node
import { readdir, readFile } from 'node:fs/promises';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import path from 'node:path';
import Redis from 'ioredis';
import pg from 'pg';

const DIR = process.argv[2] ?? 'migrations';
const KEY = `deploy:${process.env.APP_ENV ?? 'dev'}:migrate`;
const TTL_S = 20 * 60;
const BUDGET_MS = 10 * 60 * 1000;

const redis = new Redis(process.env.REDIS_URL);
const token = randomBytes(16).toString('hex');

async function enter() {
  const giveUp = Date.now() + TTL_S * 1000 + 60_000;
  while (Date.now() < giveUp) {
    if ((await redis.set(KEY, token, 'EX', TTL_S, 'NX')) === 'OK') return;
    console.log('another deploy is migrating, waiting');
    await sleep(3000);
  }
  throw new Error('gave up waiting for the migration lock');
}

async function leave() {
  await redis.eval(
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    1,
    KEY,
    token,
  );
}

async function apply(db, version, sql) {
  await db.query('begin');
  try {
    const mine = await db.query(
      'insert into schema_migrations (version) values ($1) on conflict (version) do nothing',
      [version],
    );
    if (mine.rowCount === 1) await db.query(sql);
    await db.query('commit');
    console.log(mine.rowCount === 1 ? 'applied' : 'present', version);
  } catch (err) {
    await db.query('rollback').catch(() => {});
    throw err;
  }
}

async function main() {
  await enter();
  const stopAt = Date.now() + BUDGET_MS;
  const db = new pg.Client({ connectionTimeoutMillis: 10_000, query_timeout: 5 * 60 * 1000, statement_timeout: 4 * 60 * 1000 });
  try {
    await db.connect();
    await db.query('create table if not exists schema_migrations (version text primary key, at timestamptz default now())');
    const { rows } = await db.query('select version from schema_migrations');
    const have = new Set(rows.map((r) => r.version));
    const files = (await readdir(DIR)).filter((f) => f.endsWith('.sql')).sort();
    for (const file of files) {
      const version = path.basename(file, '.sql');
      if (have.has(version)) continue;
      if (Date.now() > stopAt) throw new Error('migration budget used up, run again');
      await apply(db, version, await readFile(path.join(DIR, file), 'utf8'));
    }
  } finally {
    await db.end().catch(() => {});
    await leave();
  }
}

main()
  .catch((err) => {
    console.error(err);
    process.exitCode = 1;
  })
  .finally(() => redis.disconnect());
