#!/usr/bin/env node
'use strict';

const { createHash, randomUUID } = require('node:crypto');
const { Command } = require('commander');
const { Pool } = require('pg');
const { createClient } = require('redis');
require('dotenv').config();

const TTL_MS = 120_000;

const KEEP = `if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0`;
const DROP = `if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const sha = (s) => createHash('sha1').update(s).digest('hex');

class ScriptLock {
  constructor(client, name) {
    this.client = client;
    this.key = `script:${name}`;
    this.token = randomUUID();
  }

  async run(script, ...args) {
    const options = { keys: [this.key], arguments: args.map(String) };
    try {
      return await this.client.evalSha(sha(script), options);
    } catch (err) {
      if (!/NOSCRIPT/.test(err.message)) throw err;
      return this.client.eval(script, options);
    }
  }

  async take() {
    return (await this.client.set(this.key, this.token, { NX: true, PX: TTL_MS })) === 'OK';
  }

  /** Call before each batch. From then on there are at least 110 s for it. */
  async keep() {
    const asked = Date.now();
    const ours = await this.run(KEEP, this.token, TTL_MS);
    if (ours !== 1) throw new Error(`${this.key} was taken over, stopping`);
    if (Date.now() - asked > 10_000) throw new Error('redis too slow to rely on, stopping');
  }

  async drop() {
    await this.run(DROP, this.token);
  }
}

async function main(opts) {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (err) => console.error('redis:', err.message));
  await redis.connect();
  const pool = new Pool({
    connectionString: process.env.DATABASE_URL,
    connectionTimeoutMillis: 5_000,
    statement_timeout: 30_000,
    query_timeout: 35_000,
  });

  let stop = false;
  process.on('SIGINT', () => {
    console.error('finishing the current batch ...');
    stop = true;
  });

  const lock = new ScriptLock(redis, 'backfill-geohash');
  if (!(await lock.take())) {
    console.error('another backfill is running');
    await redis.quit();
    await pool.end();
    return 2;
  }

  let total = 0;
  try {
    while (!stop) {
      await lock.keep();
      const { rowCount } = await pool.query(
        `UPDATE stops SET geohash = ST_GeoHash(geom, 9)
          WHERE id IN (SELECT id FROM stops WHERE geohash IS NULL AND geom IS NOT NULL ORDER BY id LIMIT $1)`,
        [opts.batch],
      );
      total += rowCount;
      console.log(`${total} rows`);
      if (rowCount === 0) break;
    }
    return stop ? 130 : 0;
  } finally {
    await lock.drop().catch((err) => console.error('could not drop the lock:', err.message));
    await redis.quit().catch(() => {});
    await pool.end();
  }
}

new Command('backfill-geohash')
  .option('-b, --batch <n>', 'rows per batch', (v) => parseInt(v, 10), 2000)
  .action(async (opts) => {
    try {
      process.exitCode = await main(opts);
    } catch (err) {
      console.error(err);
      process.exitCode = 1;
    }
  })
  .parseAsync();
