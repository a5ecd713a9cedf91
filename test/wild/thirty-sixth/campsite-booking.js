'use strict';

const express = require('express');
const { createClient } = require('redis');
const { Pool } = require('pg');
const { randomUUID } = require('node:crypto');

const client = createClient({ url: process.env.REDIS_URL || 'redis://localhost:6379' });
client.on('error', (err) => console.error('redis error', err));

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3000,
  query_timeout: 4000,
});

const app = express();
app.use(express.json());

const LOCK_MS = 30_000;

async function overlaps(pitch, from, to) {
  const { rows } = await pool.query(
    'SELECT 1 FROM booking WHERE pitch_id = $1 AND arrives < $3 AND leaves > $2 LIMIT 1',
    [pitch, from, to],
  );
  return rows.length > 0;
}

app.post('/pitches/:id/bookings', async (req, res, next) => {
  const { from, to, guest } = req.body;
  if (!from || !to || !guest) {
    res.status(400).json({ error: 'from, to and guest are required' });
    return;
  }

  const key = `campsite:pitch:${req.params.id}`;
  const token = randomUUID();

  try {
    const locked = await client.set(key, token, { NX: true, PX: LOCK_MS });
    if (locked !== 'OK') {
      res.status(409).json({ error: 'this pitch is being booked, try again' });
      return;
    }

    if (await overlaps(req.params.id, from, to)) {
      res.status(409).json({ error: 'pitch is taken on these nights' });
      return;
    }

    const { rows } = await pool.query(
      'INSERT INTO booking (pitch_id, arrives, leaves, guest) VALUES ($1, $2, $3, $4) RETURNING id',
      [req.params.id, from, to, guest],
    );
    res.status(201).json({ id: rows[0].id });
  } catch (err) {
    next(err);
  } finally {
    await client.del(key);
  }
});

app.get('/healthz', (req, res) => res.send(client.isReady ? 'ok' : 'redis down'));

async function start() {
  await client.connect();
  app.listen(process.env.PORT || 8080);
}

start().catch((err) => {
  console.error(err);
  process.exit(1);
});
