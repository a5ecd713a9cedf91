'use strict';

const { randomUUID } = require('crypto');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const { Pool } = require('pg');
const log = require('./logger');

const LOCK_MS = 60_000;
const MIN_LEFT_MS = 30_000;
const BATCH = 200;

const clients = process.env.LOCK_REDIS_URLS.split(',').map((url) => {
  const client = new Redis(url, { enableOfflineQueue: false, maxRetriesPerRequest: 1, commandTimeout: 1000 });
  client.on('error', (err) => log.warn({ err }, 'lock redis'));
  return client;
});

const redlock = new Redlock(clients, { driftFactor: 0.01, retryCount: 5, retryDelay: 400, retryJitter: 200 });
redlock.on('clientError', (err) => log.warn({ err: err.message }, 'redlock client'));

const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 10_000 });

// One statement, so a batch is either in with its fees marked or not there at all.
const PAY_BATCH = `
  WITH due AS (
    SELECT id FROM referee_fees
     WHERE round_id = $1 AND payout_id IS NULL
     ORDER BY id
     LIMIT ${BATCH}
       FOR UPDATE
  ), marked AS (
    UPDATE referee_fees f SET payout_id = $2
      FROM due WHERE f.id = due.id
    RETURNING f.amount_cents
  )
  INSERT INTO payouts (id, round_id, fee_count, total_cents)
  SELECT $2, $1, count(*), sum(amount_cents) FROM marked
  HAVING count(*) > 0
  RETURNING fee_count`;

const OPEN_FEES = 'SELECT 1 FROM referee_fees WHERE round_id = $1 AND payout_id IS NULL LIMIT 1';

/**
 * Bundles all open referee fees of a round into payouts. Runs from the admin button and
 * from the nightly job; the lock keeps the two out of each other's way, the payout_id
 * column is what keeps a fee from being paid twice.
 */
async function payRound(roundId) {
  let lock;
  try {
    lock = await redlock.lock(`lock:payout:${roundId}`, LOCK_MS);
  } catch (err) {
    if (err instanceof Redlock.LockError) {
      log.info({ roundId, reason: err.message }, 'payout not started');
      return { status: 'busy' };
    }
    throw err;
  }

  let fees = 0;
  try {
    for (;;) {
      if (lock.expiration - Date.now() < MIN_LEFT_MS) {
        lock = await lock.extend(LOCK_MS);
      }
      const { rows } = await pool.query(PAY_BATCH, [roundId, randomUUID()]);
      fees += Number(rows[0]?.fee_count ?? 0);
      if (rows.length === 0 && (await pool.query(OPEN_FEES, [roundId])).rowCount === 0) break;
    }
    log.info({ roundId, fees }, 'round paid out');
    return { status: 'done', fees };
  } finally {
    await lock.unlock().catch((err) => log.warn({ err: err.message, roundId }, 'lock left to expire'));
  }
}

module.exports = { payRound };
