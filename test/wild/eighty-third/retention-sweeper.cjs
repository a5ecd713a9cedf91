'use strict';
const { randomUUID } = require('crypto');
const { createClient } = require('redis');
const { Pool } = require('pg');

const KEY = 'sweeper:retention';
const TTL = 10 * 60 * 1000;
const EVERY = 30 * 1000;

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err.message));
const pool = new Pool({ statement_timeout: 60000 });

async function tryLock(token) {
  const [created] = await redis
    .multi()
    .setNX(KEY, token)
    .pExpire(KEY, TTL)
    .exec();
  return Boolean(created);
}

async function unlock(token) {
  await redis.eval(
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
    { keys: [KEY], arguments: [token] },
  );
}

async function sweep() {
  const policies = await pool.query('select table_name, column_name, keep_days from retention_policies limit 5');
  for (const p of policies.rows) {
    const res = await pool.query(
      `delete from ${p.table_name} where ctid = any(array(
         select ctid from ${p.table_name}
          where ${p.column_name} < now() - make_interval(days => $1) limit 20000))`,
      [p.keep_days],
    );
    console.log('swept', p.table_name, res.rowCount);
  }
}

async function round() {
  const token = randomUUID();
  if (!(await tryLock(token))) return;
  try {
    await sweep();
  } finally {
    await unlock(token);
  }
}

async function main() {
  await redis.connect();
  for (;;) {
    await round().catch((err) => console.error('round failed', err));
    await new Promise((r) => setTimeout(r, EVERY));
  }
}

main();
