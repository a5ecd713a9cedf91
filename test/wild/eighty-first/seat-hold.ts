import { randomUUID } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { Redis } from '@upstash/redis';
import { Pool } from 'pg';

const redis = Redis.fromEnv();
const pool = new Pool({ max: 10, connectionTimeoutMillis: 2_000, statement_timeout: 3_000, query_timeout: 4_000 });

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

interface HoldRoute {
  Params: { showId: string };
  Body: { row: string; count: number; customerId: string };
}

export default async function seatRoutes(app: FastifyInstance): Promise<void> {
  app.post<HoldRoute>('/shows/:showId/holds', async (req, reply) => {
    const { showId } = req.params;
    const { row, count, customerId } = req.body;
    const key = `hold:${showId}:${row}`;
    const token = randomUUID();

    if ((await redis.set(key, token, { nx: true, px: 30_000 })) !== 'OK') {
      return reply.code(409).header('retry-after', '1').send({ error: 'row is being booked' });
    }

    try {
      const free = await pool.query<{ number: number }>(
        'SELECT number FROM seats WHERE show_id = $1 AND row = $2 AND held_by IS NULL ORDER BY number',
        [showId, row],
      );
      const numbers = free.rows.map((r) => r.number);
      const first = numbers.findIndex((n, i) => numbers[i + count - 1] === n + count - 1);
      if (first < 0) return reply.code(422).send({ error: 'no adjacent seats' });
      const chosen = numbers.slice(first, first + count);

      const held = await pool.query(
        `WITH pick AS (
           SELECT id FROM seats
            WHERE show_id = $1 AND row = $2 AND number = ANY($3) AND held_by IS NULL
            FOR UPDATE
         )
         UPDATE seats SET held_by = $4, held_until = now() + interval '8 minutes'
          WHERE id IN (SELECT id FROM pick) AND (SELECT count(*) FROM pick) = $5`,
        [showId, row, chosen, customerId, count],
      );
      if (held.rowCount !== count) return reply.code(409).send({ error: 'seats were taken' });
      return reply.code(201).send({ row, seats: chosen });
    } finally {
      await redis.eval(RELEASE, [key], [token]).catch((err: unknown) => {
        req.log.warn({ err, key }, 'lock left to expire');
      });
    }
  });
}
