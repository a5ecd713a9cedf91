import { randomUUID } from 'node:crypto';
import express from 'express';
import { createClient } from 'redis';
import knex from 'knex';
import { z } from 'zod';
import { logger } from './logger';

const db = knex({
  client: 'pg',
  connection: { connectionString: process.env.DATABASE_URL, statement_timeout: 3_000 },
  acquireConnectionTimeout: 3_000,
});
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => logger.warn({ err }, 'redis'));
void redis.connect();

const LOCK_MS = 30_000;
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function lockSailing(id: string): Promise<string | null> {
  const token = randomUUID();
  for (let i = 0; i < 20; i++) {
    const reply = await redis.set(`sailing:${id}:lock`, token, { NX: true, PX: LOCK_MS });
    if (reply === 'OK') return token;
    await new Promise((r) => setTimeout(r, 100 + Math.random() * 200));
  }
  return null;
}

async function unlockSailing(id: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, { keys: [`sailing:${id}:lock`], arguments: [token] });
  } catch (err) {
    logger.warn({ err, id }, 'sailing lock expires by itself');
  }
}

const Booking = z.object({
  plate: z.string().min(3),
  lengthCm: z.number().int().min(150).max(2_500),
  passengerId: z.string().uuid(),
});

export const bookings = express.Router();

// The car deck must never be sold beyond its lane length.
bookings.post('/sailings/:id/vehicles', async (req, res, next) => {
  const parsed = Booking.safeParse(req.body);
  if (!parsed.success) return res.status(400).json(parsed.error.flatten());
  const vehicle = parsed.data;
  const id = req.params.id;

  try {
    const sailing = await db('sailings').where({ id }).first();
    if (!sailing) return res.status(404).json({ error: 'no such sailing' });
    const needed = vehicle.lengthCm + 40;
    if (sailing.lane_used_cm + needed > sailing.lane_total_cm) {
      return res.status(409).json({ error: 'deck is full' });
    }

    const token = await lockSailing(id);
    if (!token) return res.status(503).json({ error: 'try again' });
    try {
      const ref = randomUUID();
      await db.transaction(async (trx) => {
        await trx('vehicle_bookings').insert({
          ref,
          sailing_id: id,
          plate: vehicle.plate,
          length_cm: vehicle.lengthCm,
          passenger_id: vehicle.passengerId,
        });
        await trx('sailings')
          .where({ id })
          .update({ lane_used_cm: sailing.lane_used_cm + needed });
      });
      return res.status(201).json({ ref });
    } finally {
      await unlockSailing(id, token);
    }
  } catch (err) {
    return next(err);
  }
});
