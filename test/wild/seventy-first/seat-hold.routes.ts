import { randomUUID } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { Pool } from 'pg';
import { z } from 'zod';
import { redis } from '../config/redis';

const HOLD_MINUTES = 12;
const LOCK_TTL_MS = 10_000;

const Body = z.object({
  seatId: z.string().uuid(),
  customerId: z.string().uuid(),
});

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

interface SeatRow {
  id: string;
  performance_id: string;
  hold_expires_at: Date | null;
}

/**
 * POST /performances/:performanceId/holds
 *
 * During an on-sale thousands of people click the same front-row seat in the
 * same second. The lock keeps that stampede away from Postgres; the WHERE clause
 * of the update is what decides who gets the seat.
 */
export function registerSeatHoldRoutes(app: FastifyInstance, deps: { pool: Pool }) {
  app.post<{ Params: { performanceId: string } }>(
    '/performances/:performanceId/holds',
    async (req, reply) => {
      const parsed = Body.safeParse(req.body);
      if (!parsed.success) {
        return reply.code(400).send({ error: 'invalid_body', issues: parsed.error.issues });
      }
      const { seatId, customerId } = parsed.data;
      const { performanceId } = req.params;

      const key = `seatlock:${performanceId}:${seatId}`;
      const token = randomUUID();

      let locked: 'OK' | null;
      try {
        locked = await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX');
      } catch (err) {
        req.log.error({ err, key }, 'seat lock unavailable');
        return reply.code(503).header('retry-after', '2').send({ error: 'try_again' });
      }
      if (locked !== 'OK') {
        return reply.code(409).send({ error: 'seat_being_held' });
      }

      try {
        const seat = await holdSeat(deps.pool, performanceId, seatId, customerId);
        if (!seat) {
          return reply.code(409).send({ error: 'seat_taken' });
        }
        return reply.code(201).send({ seatId: seat.id, expiresAt: seat.hold_expires_at });
      } finally {
        try {
          await redis.eval(UNLOCK, 1, key, token);
        } catch (err) {
          // goes away by itself after LOCK_TTL_MS
          req.log.warn({ err, key }, 'could not release seat lock');
        }
      }
    },
  );
}

async function holdSeat(
  pool: Pool,
  performanceId: string,
  seatId: string,
  customerId: string,
): Promise<SeatRow | null> {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await client.query(`SET LOCAL statement_timeout = '3s'`);
    const res = await client.query<SeatRow>(
      `UPDATE seats
          SET held_by = $3,
              hold_expires_at = now() + make_interval(mins => $4)
        WHERE id = $2
          AND performance_id = $1
          AND sold_at IS NULL
          AND (held_by IS NULL OR held_by = $3 OR hold_expires_at < now())
      RETURNING id, performance_id, hold_expires_at`,
      [performanceId, seatId, customerId, HOLD_MINUTES],
    );
    if (res.rowCount === 1) {
      await client.query(
        `INSERT INTO seat_audit (seat_id, customer_id, action) VALUES ($1, $2, 'held')`,
        [seatId, customerId],
      );
    }
    await client.query('COMMIT');
    return res.rows[0] ?? null;
  } catch (err) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    client.release();
  }
}
