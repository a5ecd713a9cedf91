'use strict';

const { randomUUID } = require('node:crypto');
const { Redis } = require('ioredis');
const { Pool } = require('pg');

const redis = new Redis(process.env.REDIS_URL || 'redis://localhost:6379');
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2000,
  statement_timeout: 3000,
  query_timeout: 4000,
});

const HOLD_SECONDS = 30;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
else
  return 0
end`;

async function acquireUnit(unitId) {
  const key = `blood:unit:${unitId}`;
  const token = randomUUID();
  const won = await redis.setnx(key, token);
  if (won !== 1) return null;
  await redis.expire(key, HOLD_SECONDS);
  return { key, token };
}

async function releaseUnit(hold) {
  const n = await redis.eval(RELEASE, 1, hold.key, hold.token);
  if (n !== 1) console.warn('hold on %s was gone already', hold.key);
}

/**
 * Reserves one blood unit for a patient after the cross match came back ok.
 * Returns false if another ward is working on the same unit.
 */
async function reserveUnit(unitId, patientId, ward) {
  const hold = await acquireUnit(unitId);
  if (!hold) return false;

  try {
    const { rows } = await pool.query('SELECT status, expires_on FROM unit WHERE id = $1', [unitId]);
    const unit = rows[0];
    if (!unit) throw new Error(`unknown unit ${unitId}`);
    if (unit.status !== 'free') return false;
    if (new Date(unit.expires_on) < new Date()) return false;

    await pool.query(
      `UPDATE unit SET status = 'reserved', patient_id = $2, ward = $3, reserved_at = now() WHERE id = $1`,
      [unitId, patientId, ward],
    );
    return true;
  } finally {
    await releaseUnit(hold);
  }
}

module.exports = { acquireUnit, releaseUnit, reserveUnit };
