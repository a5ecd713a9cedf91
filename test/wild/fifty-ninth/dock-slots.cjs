'use strict';

const express = require('express');
const Redis = require('ioredis');
const { Pool } = require('pg');
const { randomUUID } = require('crypto');
const { z } = require('zod');
const logger = require('./logger');
const { fetchTruckEta } = require('./telematics');

const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 3000 });

const LOCK_TTL_MS = 30 * 1000;

/**
 * Serialises all planning for one gate of a warehouse. Planners in the office and the drivers'
 * app come in through the same endpoint.
 */
function withGateLock(handler) {
  return async (req, res, next) => {
    const key = `gate-lock:${req.params.warehouse}:${req.params.gate}`;
    let locked = null;
    try {
      locked = await redis.set(key, req.id || randomUUID(), 'PX', LOCK_TTL_MS, 'NX');
    } catch (err) {
      return next(err);
    }
    if (locked !== 'OK') {
      return res.status(423).json({ error: 'gate is being planned, try again in a moment' });
    }

    try {
      await handler(req, res);
    } catch (err) {
      next(err);
    } finally {
      // we only get here if we got the lock, so it is ours to remove
      await redis.del(key).catch((err) => logger.warn({ err, key }, 'could not unlock gate'));
    }
  };
}

const Booking = z.object({
  plate: z.string().min(2).max(12),
  carrier: z.string(),
  durationMin: z.number().int().min(15).max(240),
});

/** First gap after `from` which is long enough. Slots come sorted. */
function firstGap(slots, from, durationMin) {
  let start = from;
  for (const s of slots) {
    if (s.starts_at - start >= durationMin * 60_000) break;
    if (s.ends_at > start) start = s.ends_at;
  }
  return new Date(start);
}

const router = express.Router();

router.post(
  '/warehouses/:warehouse/gates/:gate/slots',
  withGateLock(async (req, res) => {
    const { warehouse, gate } = req.params;
    const body = Booking.parse(req.body);

    // usually 1-2 s, the provider is asked with a timeout of 8 s
    const eta = await fetchTruckEta(body.plate, { timeout: 8000 });

    const { rows: slots } = await pool.query(
      `SELECT starts_at, ends_at FROM dock_slots
        WHERE warehouse = $1 AND gate = $2 AND ends_at > now()
        ORDER BY starts_at`,
      [warehouse, gate],
    );
    const startsAt = firstGap(slots, eta, body.durationMin);
    const endsAt = new Date(startsAt.getTime() + body.durationMin * 60_000);

    const { rows } = await pool.query(
      `INSERT INTO dock_slots (warehouse, gate, plate, carrier, starts_at, ends_at)
       VALUES ($1, $2, $3, $4, $5, $6) RETURNING id`,
      [warehouse, gate, body.plate, body.carrier, startsAt, endsAt],
    );
    logger.info({ warehouse, gate, slot: rows[0].id }, 'slot booked');
    res.status(201).json({ id: rows[0].id, startsAt, endsAt });
  }),
);

module.exports = { router, withGateLock };
