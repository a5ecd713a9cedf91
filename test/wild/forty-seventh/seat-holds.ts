import { Router, type NextFunction, type Request, type Response } from 'express';
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { redis } from '../lib/redis'; // ioredis
import { pool } from '../db';

const HOLD_MS = 8 * 60_000;
const CHECKOUT_MS = 2 * 60_000;

const HOLD_ALL = `
for i = 1, #KEYS do
  if redis.call('exists', KEYS[i]) == 1 then return i end
end
for i = 1, #KEYS do
  redis.call('set', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
return 0`;

const PROLONG_ALL = `
for i = 1, #KEYS do
  if redis.call('get', KEYS[i]) ~= ARGV[1] then return 0 end
end
for i = 1, #KEYS do
  redis.call('pexpire', KEYS[i], ARGV[2])
end
return 1`;

const DROP_ALL = `
local n = 0
for i = 1, #KEYS do
  if redis.call('get', KEYS[i]) == ARGV[1] then n = n + redis.call('del', KEYS[i]) end
end
return n`;

const Seats = z.array(z.string().regex(/^[A-Z]{1,2}\d{1,3}$/)).min(1).max(8);
const HoldBody = z.object({ seats: Seats });
const CheckoutBody = z.object({ seats: Seats, holdId: z.string().uuid(), email: z.string().email() });

const keysFor = (showId: string, seats: string[]) => [...new Set(seats)].map((s) => `hold:{${showId}}:${s}`);

const drop = (keys: string[], holdId: string) =>
  redis.eval(DROP_ALL, keys.length, ...keys, holdId).catch((err) => console.warn('hold drop failed', err));

const wrap = (h: (req: Request, res: Response) => Promise<unknown>) =>
  (req: Request, res: Response, next: NextFunction) => { h(req, res).catch(next); };

export const router = Router();

router.post('/shows/:showId/holds', wrap(async (req, res) => {
  const { showId } = req.params;
  const { seats } = HoldBody.parse(req.body);
  const keys = keysFor(showId, seats);
  const holdId = randomUUID();

  const taken = await redis.eval(HOLD_ALL, keys.length, ...keys, holdId, HOLD_MS);
  if (taken !== 0) return res.status(409).json({ error: 'seat_on_hold' });

  try {
    const sold = await pool.query('SELECT seat FROM tickets WHERE show_id = $1 AND seat = ANY($2)', [showId, seats]);
    if (sold.rowCount) {
      await drop(keys, holdId);
      return res.status(409).json({ error: 'seat_sold', seats: sold.rows.map((r) => r.seat) });
    }
  } catch (err) {
    await drop(keys, holdId);
    throw err;
  }
  return res.status(201).json({ holdId, expiresIn: HOLD_MS / 1000 });
}));

router.post('/shows/:showId/orders', wrap(async (req, res) => {
  const { showId } = req.params;
  const { seats, holdId, email } = CheckoutBody.parse(req.body);
  const keys = keysFor(showId, seats);

  const held = await redis.eval(PROLONG_ALL, keys.length, ...keys, holdId, CHECKOUT_MS);
  if (held !== 1) return res.status(410).json({ error: 'hold_expired' });

  const db = await pool.connect();
  const orderId = randomUUID();
  try {
    await db.query('BEGIN');
    await db.query(
      `INSERT INTO orders (id, show_id, email, status) VALUES ($1, $2, $3, 'awaiting_payment')`,
      [orderId, showId, email],
    );
    // unique (show_id, seat)
    await db.query(
      'INSERT INTO tickets (show_id, seat, order_id) SELECT $1, unnest($2::text[]), $3',
      [showId, [...new Set(seats)], orderId],
    );
    await db.query('COMMIT');
  } catch (err: any) {
    await db.query('ROLLBACK').catch(() => {});
    if (err.code === '23505') return res.status(409).json({ error: 'seat_sold' });
    throw err;
  } finally {
    db.release();
  }

  await drop(keys, holdId);
  return res.status(201).json({ orderId });
}));
