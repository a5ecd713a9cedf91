'use strict';

const { randomInt } = require('node:crypto');
const Redis = require('ioredis');
const { Pool } = require('pg');
const cron = require('node-cron');
const pino = require('pino');

const log = pino({ name: 'lottery-draw' });
const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3000,
  query_timeout: 5000,
});

const LEASE_MS = 45000;

// every lease gets a number, it shows up in the audit log of the draw
redis.defineCommand('takeLease', {
  numberOfKeys: 1,
  lua: `
    if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
      return 1
    end
    return 0`,
});

redis.defineCommand('dropLease', {
  numberOfKeys: 1,
  lua: `
    if redis.call('get', KEYS[1]) == ARGV[1] then
      return redis.call('del', KEYS[1])
    end
    return 0`,
});

async function withLease(name, fn) {
  const key = `lease:${name}`;
  const number = await redis.incr(`${key}:no`);
  const taken = await redis.takeLease(key, LEASE_MS, number);
  if (taken !== 1) {
    log.debug({ name }, 'another node has the lease');
    return undefined;
  }
  try {
    return await fn(number);
  } finally {
    await redis
      .dropLease(key, number)
      .catch((err) => log.warn({ err, name, number }, 'lease not dropped'));
  }
}

async function draw(lottery, leaseNo) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    const open = await db.query(
      `SELECT id FROM rounds
        WHERE lottery_id = $1 AND closes_at <= now() AND drawn_at IS NULL
        ORDER BY closes_at LIMIT 1`,
      [lottery.id],
    );
    if (open.rowCount > 0) {
      const round = open.rows[0].id;
      const { rows } = await db.query('SELECT id, player_id FROM tickets WHERE round_id = $1', [round]);
      if (rows.length > 0) {
        const winner = rows[randomInt(rows.length)];
        await db.query(
          'INSERT INTO payouts (round_id, ticket_id, player_id, cents, lease_no) VALUES ($1, $2, $3, $4, $5)',
          [round, winner.id, winner.player_id, lottery.jackpot_cents, leaseNo],
        );
        log.info({ round, ticket: winner.id, leaseNo }, 'winner drawn');
      }
      await db.query('UPDATE rounds SET drawn_at = now() WHERE id = $1', [round]);
    }
    await db.query('COMMIT');
  } catch (err) {
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

async function tick() {
  const { rows } = await pool.query('SELECT id, jackpot_cents FROM lotteries WHERE active');
  for (const lottery of rows) {
    try {
      await withLease(`draw:${lottery.id}`, (no) => draw(lottery, no));
    } catch (err) {
      log.error({ err, lottery: lottery.id }, 'draw failed');
    }
  }
}

cron.schedule('* * * * *', () => tick().catch((err) => log.error({ err }, 'tick failed')));

module.exports = { tick, draw, withLease };
