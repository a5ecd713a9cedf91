'use strict';

/**
 * Rentals of the music school.
 *
 * An instrument is out with one pupil at a time. Rentals and returns of the same
 * instrument take turns through a lock on Redis.
 */

const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const express = require('express');
const { createClient } = require('redis');
const db = require('./db'); // pool with a statement timeout of three seconds

const LOCK_MS = 30_000;
const WAIT_MS = 4_000;
const MAX_ANSWER_MS = 5_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => console.error('redis:', err.message));

class InstrumentBusyError extends Error {
  constructor(id) {
    super(`instrument ${id} is being handled at another desk`);
    this.name = 'InstrumentBusyError';
  }
}

async function release(key, token) {
  try {
    await redis.eval(RELEASE, { keys: [key], arguments: [token] });
  } catch (err) {
    console.warn(`${key} left to expire: ${err.message}`);
  }
}

/**
 * Runs `fn` while nobody else handles the instrument.
 *
 * @template T
 * @param {string} id
 * @param {() => Promise<T>} fn a few short statements, far below LOCK_MS
 * @returns {Promise<T>}
 */
async function withInstrument(id, fn) {
  const key = `school:instrument:${id}:lock`;
  const giveUpAt = performance.now() + WAIT_MS;

  for (;;) {
    const token = randomUUID();
    const askedAt = performance.now();
    const reply = await redis.set(key, token, { NX: true, PX: LOCK_MS });
    if (reply === 'OK') {
      try {
        if (performance.now() - askedAt > MAX_ANSWER_MS) throw new InstrumentBusyError(id);
        return await fn();
      } finally {
        await release(key, token);
      }
    }
    if (performance.now() >= giveUpAt) throw new InstrumentBusyError(id);
    await sleep(80 + Math.random() * 120);
  }
}

const router = express.Router();

router.post('/instruments/:id/rentals', express.json(), async (req, res, next) => {
  const { id } = req.params;
  const { pupilId, until } = req.body;

  try {
    const open = await db.query(
      'SELECT id FROM rentals WHERE instrument_id = $1 AND returned_at IS NULL',
      [id],
    );
    if (open.rows.length > 0) {
      return res.status(409).json({ error: 'the instrument is out' });
    }

    const rentalId = await withInstrument(id, async () => {
      const { rows } = await db.query(
        `INSERT INTO rentals (instrument_id, pupil_id, rented_at, due_at)
         VALUES ($1, $2, now(), $3) RETURNING id`,
        [id, pupilId, until],
      );
      await db.query('UPDATE instruments SET times_rented = times_rented + 1 WHERE id = $1', [id]);
      return rows[0].id;
    });

    return res.status(201).json({ rentalId });
  } catch (err) {
    if (err instanceof InstrumentBusyError) {
      return res.status(423).json({ error: err.message });
    }
    return next(err);
  }
});

router.post('/instruments/:id/return', async (req, res, next) => {
  const { id } = req.params;
  try {
    const { rowCount } = await withInstrument(id, () =>
      db.query(
        'UPDATE rentals SET returned_at = now() WHERE instrument_id = $1 AND returned_at IS NULL',
        [id],
      ),
    );
    return res.json({ returned: rowCount > 0 });
  } catch (err) {
    if (err instanceof InstrumentBusyError) {
      return res.status(423).json({ error: err.message });
    }
    return next(err);
  }
});

module.exports = { router, withInstrument, InstrumentBusyError };
