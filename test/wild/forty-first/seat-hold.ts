import Fastify from 'fastify';
import Redis from 'ioredis';
import Redlock from 'redlock4';
import { Pool } from 'pg';
import { z } from 'zod';

const app = Fastify({ logger: true });
const redis = new Redis(process.env.REDIS_URL!);
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  statement_timeout: 2_000,
  connectionTimeoutMillis: 2_000,
});

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 5,
  retryDelay: 150,
  retryJitter: 100,
});

redlock.on('clientError', (err: Error) => app.log.error(err, 'redlock client error'));

const LOCK_TTL = 15_000;
const HOLD_MINUTES = 8;

const body = z.object({ customerId: z.string().uuid() });

app.post<{ Params: { showId: string; seat: string } }>('/shows/:showId/seats/:seat/hold', async (req, reply) => {
  const { showId, seat } = req.params;
  const parsed = body.safeParse(req.body);
  if (!parsed.success) return reply.code(400).send({ error: 'customerId missing' });

  const resource = `locks:seat:${showId}:${seat}`;
  let lock: Redlock.Lock | undefined;

  try {
    lock = await redlock.lock(resource, LOCK_TTL);
  } catch (err) {
    req.log.warn({ err, resource }, 'could not lock seat');
  }

  try {
    const { rows } = await pool.query(
      `select id, sold, held_by, held_until > now() as held
         from seats where show_id = $1 and label = $2`,
      [showId, seat],
    );
    const row = rows[0];
    if (!row) return reply.code(404).send({ error: 'no such seat' });
    if (row.sold || (row.held && row.held_by !== parsed.data.customerId)) {
      return reply.code(409).send({ error: 'seat is taken' });
    }

    await pool.query(
      `update seats
          set held_by = $2, held_until = now() + make_interval(mins => $3)
        where id = $1`,
      [row.id, parsed.data.customerId, HOLD_MINUTES],
    );
    return { held: true, minutes: HOLD_MINUTES };
  } finally {
    if (lock) {
      await lock.unlock().catch((err: Error) => req.log.warn({ err }, 'unlock failed'));
    }
  }
});

app.listen({ port: Number(process.env.PORT ?? 3000), host: '0.0.0.0' });
