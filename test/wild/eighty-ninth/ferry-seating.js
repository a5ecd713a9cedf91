'use strict';

/**
 * Seat assignment for a sailing.
 *
 * Passengers without a seat are seated in batches. The seat plan is read once and
 * kept in memory, so nobody else may seat people on the same sailing meanwhile.
 * The lock is extended before each batch, and a batch cannot take longer than
 * BATCH_LIMIT_MS: the pool gives up waiting for a connection after two seconds,
 * and PostgreSQL cancels the statement after four.
 */

const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Pool } = require('pg');

const LOCK_MS = 20_000;
const BATCH_LIMIT_MS = 8_000;
const BATCH_SIZE = 50;

const nodes = ['lock-1', 'lock-2', 'lock-3'].map((host) => {
  const client = new Redis({ host, maxRetriesPerRequest: 1, commandTimeout: 1_000 });
  client.on('error', (err) => console.warn(`${host}: ${err.message}`));
  return client;
});

const redlock = new Redlock(nodes, { retryCount: 4, retryDelay: 250, retryJitter: 100 });
redlock.on('clientError', (err) => console.warn('lock node:', err.message));

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 4_000,
});

class SailingLockedError extends Error {
  constructor(sailingId, options) {
    super(`sailing ${sailingId} is being seated already`, options);
    this.name = 'SailingLockedError';
  }
}

class SeatingInterruptedError extends Error {
  constructor(sailingId, seated, options) {
    super(`lost the lock of sailing ${sailingId} after seating ${seated}`, options);
    this.name = 'SeatingInterruptedError';
    this.seated = seated;
  }
}

/** Makes sure that the next batch fits into what is left of the lock. */
async function refresh(lock, sailingId, seated) {
  try {
    await lock.extend(LOCK_MS);
  } catch (err) {
    throw new SeatingInterruptedError(sailingId, seated, { cause: err });
  }
  if (lock.expiration - Date.now() < BATCH_LIMIT_MS) {
    throw new SeatingInterruptedError(sailingId, seated);
  }
}

async function loadPlan(sailingId) {
  const seats = await pool.query(
    `SELECT s.no FROM seats s
      WHERE s.sailing_id = $1
        AND NOT EXISTS (SELECT 1 FROM bookings b WHERE b.sailing_id = $1 AND b.seat_no = s.no)
      ORDER BY s.no`,
    [sailingId],
  );
  const waiting = await pool.query(
    'SELECT id FROM bookings WHERE sailing_id = $1 AND seat_no IS NULL ORDER BY booked_at',
    [sailingId],
  );
  return { free: seats.rows.map((r) => r.no), waiting: waiting.rows.map((r) => r.id) };
}

/**
 * Seats everybody there is room for.
 *
 * @param {string} sailingId
 * @returns {Promise<{ seated: number, standing: number }>}
 */
async function seatPassengers(sailingId) {
  let lock;
  try {
    lock = await redlock.lock(`locks:sailing:${sailingId}`, LOCK_MS);
  } catch (err) {
    throw new SailingLockedError(sailingId, { cause: err });
  }

  let seated = 0;
  try {
    const { free, waiting } = await loadPlan(sailingId);
    const total = Math.min(free.length, waiting.length);

    while (seated < total) {
      await refresh(lock, sailingId, seated);
      const end = Math.min(seated + BATCH_SIZE, total);
      await pool.query(
        `UPDATE bookings SET seat_no = p.seat
           FROM unnest($1::bigint[], $2::text[]) AS p(id, seat)
          WHERE bookings.id = p.id`,
        [waiting.slice(seated, end), free.slice(seated, end)],
      );
      seated = end;
    }
    return { seated, standing: waiting.length - seated };
  } finally {
    await lock.unlock().catch((err) => {
      console.warn(`sailing ${sailingId}: lock left to expire (${err.message})`);
    });
  }
}

module.exports = { seatPassengers, SailingLockedError, SeatingInterruptedError };
