'use strict';

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const fastify = require('fastify')({ logger: true });
const Redis = require('ioredis');
const { Pool } = require('pg');

const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 3000 });

const LOCK_MS = 30000;
const WAIT_MS = 5000;

redis.defineCommand('lockAll', {
  lua: `
    for i = 1, #KEYS do
      if redis.call('exists', KEYS[i]) == 1 then return 0 end
    end
    for i = 1, #KEYS do
      redis.call('set', KEYS[i], ARGV[1], 'PX', ARGV[2])
    end
    return 1`,
});

redis.defineCommand('unlockAll', {
  lua: `
    local n = 0
    for i = 1, #KEYS do
      if redis.call('get', KEYS[i]) == ARGV[1] then n = n + redis.call('del', KEYS[i]) end
    end
    return n`,
});

async function withStockLocks(keys, fn) {
  const owner = randomUUID();
  const until = Date.now() + WAIT_MS;
  while ((await redis.lockAll(keys.length, ...keys, owner, LOCK_MS)) !== 1) {
    if (Date.now() >= until) {
      const err = new Error('stock is being moved by somebody else');
      err.statusCode = 409;
      throw err;
    }
    await sleep(50 + Math.floor(Math.random() * 100));
  }
  try {
    return await fn();
  } finally {
    await redis
      .unlockAll(keys.length, ...keys, owner)
      .catch((err) => fastify.log.warn({ err, keys }, 'unlock failed'));
  }
}

async function move({ id, sku, from, to, qty }) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    const fresh = await db.query(
      `INSERT INTO stock_transfers (id, sku, from_wh, to_wh, qty)
       VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING`,
      [id, sku, from, to, qty],
    );
    if (fresh.rowCount === 1) {
      const out = await db.query(
        'UPDATE stock SET qty = qty - $3 WHERE wh = $1 AND sku = $2 AND qty >= $3',
        [from, sku, qty],
      );
      if (out.rowCount !== 1) throw Object.assign(new Error('not enough stock'), { statusCode: 422 });
      await db.query(
        `INSERT INTO stock (wh, sku, qty) VALUES ($1, $2, $3)
         ON CONFLICT (wh, sku) DO UPDATE SET qty = stock.qty + excluded.qty`,
        [to, sku, qty],
      );
    }
    await db.query('COMMIT');
    return { id, applied: fresh.rowCount === 1 };
  } catch (err) {
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

const schema = {
  body: {
    type: 'object',
    required: ['id', 'sku', 'from', 'to', 'qty'],
    properties: {
      id: { type: 'string', format: 'uuid' },
      sku: { type: 'string' },
      from: { type: 'string' },
      to: { type: 'string' },
      qty: { type: 'integer', minimum: 1 },
    },
  },
};

fastify.post('/stock/transfers', { schema }, async (req) => {
  const { sku, from, to } = req.body;
  if (from === to) throw Object.assign(new Error('same warehouse'), { statusCode: 400 });
  // {sku} keeps both keys in one cluster slot
  return withStockLocks([`stock:{${sku}}:${from}`, `stock:{${sku}}:${to}`], () => move(req.body));
});

fastify.listen({ port: Number(process.env.PORT || 3000), host: '0.0.0.0' });
