// POST /shipments/:id/label - buys a label from the carrier and stores it.
// Warehouse people double click a lot, and the scanner app repeats the call
// after 10 seconds without an answer.

import express from 'express';
import Redis from 'ioredis';
import pg from 'pg';
import axios from 'axios';
import pino from 'pino';

const log = pino({ name: 'labels' });
const redis = new Redis(process.env.REDIS_URL);
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const carrier = axios.create({
  baseURL: process.env.CARRIER_URL,
  timeout: 25_000,
  headers: { Authorization: `Bearer ${process.env.CARRIER_TOKEN}` },
});

const BUSY_SECONDS = 30;

async function findLabel(shipmentId) {
  const { rows } = await pool.query(
    'SELECT tracking_no, pdf_url FROM labels WHERE shipment_id = $1',
    [shipmentId],
  );
  return rows[0];
}

async function buyLabel(shipmentId) {
  const { rows } = await pool.query(
    'SELECT weight_g, country, postcode FROM shipments WHERE id = $1',
    [shipmentId],
  );
  if (rows.length === 0) return undefined;

  // the carrier keeps Idempotency-Key for the life of the shipment and answers
  // a repeated order with the label it already sold (contract, section 4.2)
  const { data } = await carrier.post('/v2/labels', rows[0], {
    headers: { 'Idempotency-Key': `shipment-${shipmentId}` },
  });

  await pool.query(
    `INSERT INTO labels (shipment_id, tracking_no, pdf_url)
     VALUES ($1, $2, $3)
     ON CONFLICT (shipment_id) DO NOTHING`,
    [shipmentId, data.trackingNumber, data.pdfUrl],
  );
  return findLabel(shipmentId);
}

const app = express();

app.post('/shipments/:id/label', async (req, res, next) => {
  const { id } = req.params;
  const busyKey = `label:busy:${id}`;
  try {
    const existing = await findLabel(id);
    if (existing) return res.json(existing);

    // spares the carrier's rate limit (5/s for the whole account)
    const mine = await redis.set(busyKey, '1', 'EX', BUSY_SECONDS, 'NX');
    if (mine !== 'OK') return res.status(409).set('Retry-After', '2').end();

    try {
      const label = await buyLabel(id);
      if (!label) return res.status(404).end();
      return res.status(201).json(label);
    } finally {
      await redis.del(busyKey).catch((err) => log.warn({ err, id }, 'busy flag not removed'));
    }
  } catch (err) {
    return next(err);
  }
});

app.use((err, req, res, _next) => {
  log.error({ err, url: req.url }, 'label request failed');
  res.status(502).json({ error: 'label service unavailable' });
});

app.listen(Number(process.env.PORT ?? 3000));
