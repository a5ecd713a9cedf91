import { randomUUID } from 'node:crypto';
import express from 'express';
import pg from 'pg';
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();
const pool = new pg.Pool({
  connectionTimeoutMillis: 3_000,
  statement_timeout: 5_000,
});

const LOCK_MS = 60_000;
const UNLOCK =
  'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end';

async function tryLock(key, token) {
  try {
    const reply = await redis.set(key, token, { nx: true, px: LOCK_MS });
    return reply === 'OK';
  } catch (err) {
    console.error('lock request failed', key, err);
    return true;
  }
}

async function unlock(key, token) {
  try {
    await redis.eval(UNLOCK, [key], [token]);
  } catch (err) {
    console.error('unlock request failed', key, err);
  }
}

async function redeem(memberId, rewardId) {
  const db = await pool.connect();
  try {
    await db.query('BEGIN');
    const member = (await db.query('SELECT points FROM members WHERE id = $1', [memberId])).rows[0];
    const reward = (await db.query('SELECT cost FROM rewards WHERE id = $1', [rewardId])).rows[0];
    if (!member || !reward || member.points < reward.cost) {
      await db.query('ROLLBACK');
      return null;
    }
    const points = member.points - reward.cost;
    await db.query('INSERT INTO vouchers (code, member_id, reward_id) VALUES ($1, $2, $3)', [
      randomUUID(),
      memberId,
      rewardId,
    ]);
    await db.query('UPDATE members SET points = $2 WHERE id = $1', [memberId, points]);
    await db.query('COMMIT');
    return { points };
  } catch (err) {
    await db.query('ROLLBACK').catch(() => {});
    throw err;
  } finally {
    db.release();
  }
}

export const app = express();
app.use(express.json());

app.post('/members/:id/redemptions', async (req, res) => {
  const key = `member:${req.params.id}:points`;
  const token = randomUUID();
  if (!(await tryLock(key, token))) {
    return res.status(409).json({ error: 'another redemption is in progress' });
  }
  try {
    const result = await redeem(req.params.id, req.body.rewardId);
    if (!result) return res.status(422).json({ error: 'not enough points' });
    return res.status(201).json(result);
  } catch (err) {
    console.error('redeem', req.params.id, err);
    return res.status(500).json({ error: 'redemption failed' });
  } finally {
    await unlock(key, token);
  }
});
