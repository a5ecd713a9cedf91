'use strict';
const Redis = require('ioredis');
const { Pool } = require('pg');
const { randomUUID } = require('crypto');

const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool({ connectionString: process.env.LAB_DB });
const TTL = Number(process.env.SAMPLE_TTL_MS || 8000);

// KEYS: lock, counter / ARGV: token, ttl
const OPEN = `
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return false end
local t = redis.call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])
local last = tonumber(redis.call('GET', KEYS[2]) or '0')
local n = string.format('%.0f', math.max(now, last + 1))
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SET', KEYS[2], n)
return n`;

const CLOSE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

const nap = (ms) => new Promise((r) => setTimeout(r, ms));

async function withSample(sampleId, fn) {
  const lock = `{sample:${sampleId}}:lock`;
  const counter = `{sample:${sampleId}}:n`;
  const token = randomUUID();
  let n = null;
  for (let i = 0; i < 20 && n === null; i++) {
    n = await redis.eval(OPEN, 2, lock, counter, token, TTL);
    if (n === null) await nap(100 + Math.random() * 150);
  }
  if (n === null) throw new Error(`sample ${sampleId} busy`);
  try {
    return await fn(n);
  } finally {
    await redis.eval(CLOSE, 1, lock, token).catch((e) => console.error('close', sampleId, e.message));
  }
}

// runId comes from the pipetting robot, one per dispense
async function recordDispense({ runId, sampleId, ul }) {
  return withSample(sampleId, async (n) => {
    const c = await pool.connect();
    try {
      await c.query('BEGIN');
      const ins = await c.query(
        'INSERT INTO dispenses (run_id, sample_id, ul) VALUES ($1,$2,$3) ON CONFLICT (run_id) DO NOTHING',
        [runId, sampleId, ul]
      );
      if (ins.rowCount === 0) {
        await c.query('ROLLBACK');
        return { status: 'already' };
      }
      const upd = await c.query(
        `UPDATE aliquots SET volume_ul = volume_ul - $2::int, fence = $3::bigint
          WHERE sample_id = $1 AND fence < $3::bigint AND volume_ul >= $2::int
          RETURNING volume_ul`,
        [sampleId, ul, n]
      );
      if (upd.rowCount === 0) throw new Error(`sample ${sampleId}: not enough left, or someone newer wrote`);
      await c.query('COMMIT');
      return { status: 'ok', left: upd.rows[0].volume_ul };
    } catch (e) {
      await c.query('ROLLBACK').catch(() => {});
      throw e;
    } finally {
      c.release();
    }
  });
}

module.exports = { recordDispense, withSample };
