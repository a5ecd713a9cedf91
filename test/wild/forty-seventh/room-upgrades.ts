import express, { type NextFunction, type Request, type Response } from 'express';
import Redis from 'ioredis';
import pino from 'pino';
import { z } from 'zod';
import { pool } from '../db';

const log = pino({ name: 'room-upgrades' });
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const LOCK_TTL_MS = 30_000;

const Params = z.object({ hotelId: z.string().uuid(), reservationId: z.string().uuid() });
const Body = z.object({ category: z.enum(['superior', 'deluxe', 'suite']) });

async function lock(key: string, owner: string) {
  const reply = await redis.set(key, owner, 'PX', LOCK_TTL_MS, 'NX');
  return reply === 'OK';
}

async function unlock(key: string) {
  try {
    await redis.del(key);
  } catch (err) {
    log.warn({ err, key }, 'unlock failed, waiting for ttl');
  }
}

async function findFreeRoom(hotelId: string, category: string, from: Date, to: Date) {
  const { rows } = await pool.query(
    `SELECT r.id, r.number
       FROM rooms r
      WHERE r.hotel_id = $1 AND r.category = $2
        AND NOT EXISTS (
          SELECT 1 FROM reservations x
           WHERE x.room_id = r.id AND x.arrival < $4 AND x.departure > $3 AND x.status <> 'cancelled')
      ORDER BY r.floor DESC
      LIMIT 1`,
    [hotelId, category, from, to],
  );
  return rows[0] as { id: string; number: string } | undefined;
}

export const router = express.Router();

router.post(
  '/hotels/:hotelId/reservations/:reservationId/upgrade',
  async (req: Request, res: Response, next: NextFunction) => {
    const params = Params.safeParse(req.params);
    const body = Body.safeParse(req.body);
    if (!params.success || !body.success) {
      res.status(400).json({ error: 'bad_request' });
      return;
    }
    const { hotelId, reservationId } = params.data;
    const { category } = body.data;

    // one upgrade per hotel and category at a time
    const key = `lock:upgrade:${hotelId}:${category}`;
    try {
      if (!(await lock(key, `upgrade/${reservationId}`))) {
        res.status(423).set('retry-after', '2').json({ error: 'upgrade_in_progress' });
        return;
      }

      const { rows } = await pool.query(
        `SELECT id, arrival, departure FROM reservations WHERE id = $1 AND hotel_id = $2 AND status = 'confirmed'`,
        [reservationId, hotelId],
      );
      const reservation = rows[0];
      if (!reservation) {
        res.status(404).json({ error: 'not_found' });
        return;
      }

      const room = await findFreeRoom(hotelId, category, reservation.arrival, reservation.departure);
      if (!room) {
        res.status(409).json({ error: 'sold_out' });
        return;
      }

      await pool.query('UPDATE reservations SET room_id = $2, category = $3 WHERE id = $1', [
        reservationId,
        room.id,
        category,
      ]);
      res.json({ reservationId, room: room.number });
    } catch (err) {
      next(err);
    } finally {
      await unlock(key);
    }
  },
);
