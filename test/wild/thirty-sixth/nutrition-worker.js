'use strict';

const { randomBytes } = require('node:crypto');
const { Worker, DelayedError } = require('bullmq');
const { Redis } = require('ioredis');
const { Pool } = require('pg');

const url = process.env.REDIS_URL || 'redis://127.0.0.1:6379';
const queueConn = new Redis(url, { maxRetriesPerRequest: null });
const markConn = new Redis(url, { maxRetriesPerRequest: 2, commandTimeout: 3000 });
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 4000,
  statement_timeout: 5000,
  query_timeout: 6000,
});

// Editors hit "save" many times in a row. The mark stays a little while after a
// pass so the rest of the burst lands in one recomputation.
const LINGER = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0`;

async function lookup(ingredients) {
  const res = await fetch(process.env.FOODS_API + '/v2/resolve', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ ingredients }),
    signal: AbortSignal.timeout(12_000),
  });
  if (!res.ok) throw new Error(`foods api answered ${res.status}`);
  return res.json();
}

async function recompute(recipeId) {
  const { rows } = await pool.query('SELECT name, grams FROM ingredient WHERE recipe_id = $1', [recipeId]);
  const foods = await lookup(rows);
  const sum = { kcal: 0, protein: 0, fat: 0 };
  for (const food of foods) {
    sum.kcal += food.kcal;
    sum.protein += food.protein;
    sum.fat += food.fat;
  }
  await pool.query(
    `INSERT INTO nutrition (recipe_id, kcal, protein, fat) VALUES ($1, $2, $3, $4)
     ON CONFLICT (recipe_id) DO UPDATE SET kcal = $2, protein = $3, fat = $4`,
    [recipeId, sum.kcal, sum.protein, sum.fat],
  );
}

const worker = new Worker(
  'nutrition',
  async (job, token) => {
    const busy = `recipe:${job.data.recipeId}:busy`;
    const mark = randomBytes(12).toString('base64url');

    if ((await markConn.set(busy, mark, 'EX', 60, 'NX')) === null) {
      await job.moveToDelayed(Date.now() + 1500 + Math.floor(Math.random() * 1000), token);
      throw new DelayedError();
    }

    try {
      await recompute(job.data.recipeId);
    } finally {
      await markConn.eval(LINGER, 1, busy, mark, 1200).catch((err) => {
        console.warn('mark of %s left to expire: %s', busy, err.message);
      });
    }
  },
  { connection: queueConn, concurrency: 8 },
);

worker.on('failed', (job, err) => console.error('job %s failed: %s', job && job.id, err.message));

process.once('SIGTERM', async () => {
  await worker.close();
  markConn.disconnect();
  queueConn.disconnect();
  await pool.end();
});
