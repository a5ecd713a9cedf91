#!/usr/bin/env node
'use strict';

// Runs on every deploy, from every pod (init container). Usage: migrate <tenant>

const fs = require('fs');
const path = require('path');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Client } = require('pg');

const TTL = 5 * 60 * 1000;
const DIR = path.join(__dirname, 'migrations');

const nodes = process.env.REDIS_NODES.split(',').map((u) => new Redis(u));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 60,
  retryDelay: 2000,
  retryJitter: 500,
});

redlock.on('clientError', (err) => console.warn('redis:', err.message));

async function applied(db) {
  await db.query('create table if not exists schema_migrations (version text primary key, at timestamptz default now())');
  const { rows } = await db.query('select version from schema_migrations');
  return new Set(rows.map((r) => r.version));
}

async function applyOne(db, file) {
  const sql = fs.readFileSync(path.join(DIR, file), 'utf8');
  await db.query('begin');
  try {
    // first, so that anybody else with the same version hangs here and then fails
    await db.query('insert into schema_migrations (version) values ($1)', [file]);
    await db.query(sql);
    await db.query('commit');
  } catch (err) {
    await db.query('rollback');
    throw err;
  }
}

async function main(tenant) {
  if (!/^[a-z0-9_]+$/.test(tenant || '')) throw new Error('usage: migrate <tenant>');

  let lock = await redlock.lock(`migrate:${tenant}`, TTL);
  const db = new Client({ connectionString: process.env.DATABASE_URL });
  try {
    await db.connect();
    await db.query(`set search_path to ${tenant}`);
    const done = await applied(db);
    const files = fs.readdirSync(DIR).filter((f) => f.endsWith('.sql')).sort();

    for (const file of files) {
      if (done.has(file)) continue;
      lock = await lock.extend(TTL);
      console.log(`${tenant}: ${file}`);
      await applyOne(db, file);
    }
  } finally {
    await db.end().catch(() => {});
    await lock.unlock().catch((err) => console.warn('unlock:', err.message));
  }
}

main(process.argv[2])
  .then(() => process.exit(0))
  .catch((err) => {
    console.error(err);
    process.exit(1); // k8s runs the init container again
  });
