'use strict';

const crypto = require('node:crypto');
const express = require('express');
const { createClient } = require('redis');
const { Pool } = require('pg');

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err.message));

// connect 3s + four statements of 4s each = 19s worst case
const pool = new Pool({
  connectionTimeoutMillis: 3_000,
  statement_timeout: 4_000,
  query_timeout: 4_000,
  max: 20,
});

const LOCK_MS = 30_000;
const MAX_ACQUIRE_MS = 3_000;

const UNLOCK = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0`;

async function acquire(key) {
  const token = crypto.randomBytes(16).toString('hex');
  const started = Date.now();
  const reply = await redis.set(key, token, { NX: true, PX: LOCK_MS });
  if (reply !== 'OK') return null;
  if (Date.now() - started > MAX_ACQUIRE_MS) {
    // reply sat in a queue somewhere, don't build on what is left of it
    await release(key, token);
    return null;
  }
  return token;
}

async function release(key, token) {
  try {
    await redis.eval(UNLOCK, { keys: [key], arguments: [token] });
  } catch (err) {
    console.warn('slot lock not released, will expire', key, err.message);
  }
}

async function sellTickets(slotId, visitorId, count) {
  const db = await pool.connect();
  let broken;
  try {
    await db.query('BEGIN');
    const { rows } = await db.query(
      'SELECT capacity, (SELECT coalesce(sum(n), 0) FROM entries WHERE slot_id = s.id) AS sold FROM slots s WHERE s.id = $1',
      [slotId],
    );
    if (!rows.length || Number(rows[0].sold) + count > rows[0].capacity) {
      await db.query('ROLLBACK');
      return null;
    }
    const entry = await db.query(
      'INSERT INTO entries (slot_id, visitor_id, n) VALUES ($1, $2, $3) RETURNING id',
      [slotId, visitorId, count],
    );
    await db.query('COMMIT');
    return entry.rows[0].id;
  } catch (err) {
    broken = err;
    throw err;
  } finally {
    // passing the error closes the connection, which rolls back
    db.release(broken);
  }
}

const app = express();
app.use(express.json());

app.post('/slots/:slotId/tickets', async (req, res, next) => {
  const count = Number(req.body.count);
  if (!Number.isInteger(count) || count < 1 || count > 10) return res.status(400).json({ error: 'count' });

  const key = `museum:slot:${req.params.slotId}`;
  let token;
  try {
    token = await acquire(key);
    if (!token) return res.status(423).set('Retry-After', '1').json({ error: 'slot busy' });
    const entryId = await sellTickets(req.params.slotId, req.body.visitorId, count);
    if (!entryId) return res.status(409).json({ error: 'sold out' });
    return res.status(201).json({ entryId });
  } catch (err) {
    return next(err);
  } finally {
    if (token) await release(key, token);
  }
});

redis.connect().then(() => app.listen(process.env.PORT || 3000));
