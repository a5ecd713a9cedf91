import express from 'express';
import Redis from 'ioredis';
import pg from 'pg';
import { randomUUID } from 'node:crypto';

const redis = new Redis(process.env.REDIS_URL);
const pool = new pg.Pool();
const app = express();
app.use(express.json());

const HOLD_MS = 10 * 60 * 1000;

redis.defineCommand('holdAll', {
  lua: `
    for i = 1, #KEYS do
      if redis.call('EXISTS', KEYS[i]) == 1 then return i end
    end
    for i = 1, #KEYS do
      redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
    end
    return 0`,
});

redis.defineCommand('dropAll', {
  lua: `
    local n = 0
    for i = 1, #KEYS do
      if redis.call('GET', KEYS[i]) == ARGV[1] then
        n = n + redis.call('DEL', KEYS[i])
      end
    end
    return n`,
});

const seatKeys = (show, seats) => seats.map((s) => `seat:{${show}}:${s}`);
const parseSeats = (body) =>
  [...new Set(Array.isArray(body.seats) ? body.seats.map(String) : [])].slice(0, 8);

app.post('/shows/:show/holds', async (req, res, next) => {
  try {
    const seats = parseSeats(req.body);
    if (!seats.length) return res.status(400).json({ error: 'seats needed' });
    const holdId = randomUUID();
    const keys = seatKeys(req.params.show, seats);
    const taken = await redis.holdAll(keys.length, ...keys, holdId, HOLD_MS);
    if (taken !== 0) return res.status(409).json({ error: 'seat is held', seat: seats[taken - 1] });
    res.status(201).json({ holdId, seats, expiresIn: HOLD_MS });
  } catch (err) {
    next(err);
  }
});

app.post('/shows/:show/holds/:hold/confirm', async (req, res, next) => {
  const { show, hold } = req.params;
  const seats = parseSeats(req.body);
  if (!seats.length) return res.status(400).json({ error: 'seats needed' });
  const keys = seatKeys(show, seats);
  let db;
  try {
    const owners = await redis.mget(keys);
    if (owners.some((o) => o !== hold)) return res.status(410).json({ error: 'hold is over' });

    db = await pool.connect();
    await db.query('BEGIN');
    const sold = await db.query(
      `UPDATE seats SET sold_under = $1, sold_at = now()
        WHERE show_id = $2 AND label = ANY($3) AND sold_under IS NULL`,
      [hold, show, seats],
    );
    if (sold.rowCount !== seats.length) {
      await db.query('ROLLBACK');
      return res.status(409).json({ error: 'seat already sold' });
    }
    await db.query(
      `INSERT INTO orders (id, show_id, seats, status) VALUES ($1, $2, $3, 'awaiting_payment')`,
      [hold, show, seats],
    );
    await db.query('COMMIT');
  } catch (err) {
    if (db) await db.query('ROLLBACK').catch(() => {});
    return next(err);
  } finally {
    db?.release();
  }
  await redis.dropAll(keys.length, ...keys, hold).catch((e) => console.warn('hold left to expire', e.message));
  res.json({ order: hold });
});

app.delete('/shows/:show/holds/:hold', async (req, res, next) => {
  try {
    const keys = seatKeys(req.params.show, parseSeats(req.body ?? {}));
    if (keys.length) await redis.dropAll(keys.length, ...keys, req.params.hold);
    res.status(204).end();
  } catch (err) {
    next(err);
  }
});

app.listen(process.env.PORT || 3000);
