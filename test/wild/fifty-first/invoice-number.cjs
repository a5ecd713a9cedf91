'use strict';

const express = require('express');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Pool } = require('pg');

const LOCK_TTL = 40000;
const COMMIT_MARGIN = 10000;

const redis = new Redis(process.env.REDIS_URL, { maxRetriesPerRequest: 1, commandTimeout: 1000 });
redis.on('error', (err) => console.warn('redis', err.message));

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 20,
  retryDelay: 150,
  retryJitter: 100,
});
redlock.on('clientError', (err) => console.warn('redlock', err.message));

const pool = new Pool({
  connectionTimeoutMillis: 3000,
  statement_timeout: 3000,
  query_timeout: 4000,
});

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS invoices (
    id bigserial PRIMARY KEY,
    series text NOT NULL,
    number integer NOT NULL,
    order_id bigint NOT NULL UNIQUE,
    total numeric(12,2) NOT NULL,
    UNIQUE (series, number)
  )`;

async function issueInvoice(series, order, lock) {
  const db = await pool.connect();
  let failure;
  try {
    await db.query('BEGIN');
    const last = await db.query(
      'SELECT coalesce(max(number), 0) AS number FROM invoices WHERE series = $1',
      [series],
    );
    const inserted = await db.query(
      'INSERT INTO invoices (series, number, order_id, total) VALUES ($1, $2, $3, $4) RETURNING *',
      [series, Number(last.rows[0].number) + 1, order.id, order.total],
    );
    if (lock.expiration - Date.now() < COMMIT_MARGIN) {
      throw new Error(`invoice series ${series}: too little time left on the lock`);
    }
    await db.query('COMMIT');
    return inserted.rows[0];
  } catch (err) {
    failure = err;
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    db.release(failure);
  }
}

const router = express.Router();

router.post('/series/:series/invoices', express.json(), async (req, res, next) => {
  const { series } = req.params;
  let lock;
  try {
    lock = await redlock.lock(`locks:invoice-series:${series}`, LOCK_TTL);
  } catch (err) {
    if (err instanceof Redlock.LockError) {
      return res.status(423).json({ error: 'series is busy' });
    }
    return next(err);
  }

  try {
    const invoice = await issueInvoice(series, req.body, lock);
    res.status(201).json(invoice);
  } catch (err) {
    if (err.code === '23505') res.status(409).json({ error: 'already invoiced or number taken' });
    else next(err);
  } finally {
    await lock.unlock().catch((err) => console.warn('unlock', series, err.message));
  }
});

module.exports = { router, migrate: () => pool.query(SCHEMA) };
