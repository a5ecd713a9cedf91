import { randomUUID } from 'node:crypto';
import { addMinutes, isBefore, parseISO } from 'date-fns';
import type { FastifyInstance } from 'fastify';
import type { RedisClientType } from 'redis';
import type { Pool } from 'pg';

const LOCK_TTL_MS = 20_000;
const QUERY_TIMEOUT_MS = 4_000;
const HOLD_MINUTES = 15;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

interface HoldBody {
  guestId: string;
  arrival: string; // yyyy-MM-dd
  departure: string; // yyyy-MM-dd
}

class RoomBusy extends Error {}

async function lockRoom(redis: RedisClientType, roomId: string, arrival: string) {
  const key = `lock:room:${roomId}:${arrival}`;
  const token = randomUUID();
  const validUntil = performance.now() + LOCK_TTL_MS;
  const reply = await redis.set(key, token, {
    condition: 'NX',
    expiration: { type: 'PX', value: LOCK_TTL_MS },
  });
  if (reply !== 'OK') throw new RoomBusy(`room ${roomId} is being booked`);
  return {
    leftMs: () => validUntil - performance.now(),
    async [Symbol.asyncDispose]() {
      // If this fails the TTL frees the room.
      await redis.eval(UNLOCK, { keys: [key], arguments: [token] }).catch(() => undefined);
    },
  };
}

async function placeHold(redis: RedisClientType, pool: Pool, roomId: string, body: HoldBody): Promise<string | null> {
  await using lock = await lockRoom(redis, roomId, body.arrival);

  const clash = await pool.query({
    text: `SELECT 1 FROM stays
            WHERE room_id = $1 AND arrival < $3 AND departure > $2
              AND (state = 'confirmed' OR (state = 'held' AND held_until > now()))
            LIMIT 1`,
    values: [roomId, body.arrival, body.departure],
    query_timeout: QUERY_TIMEOUT_MS,
  } as never);
  if (clash.rowCount) return null;

  if (lock.leftMs() < 2 * QUERY_TIMEOUT_MS) throw new RoomBusy(`room ${roomId}: lock too old`);
  const inserted = await pool.query({
    text: `INSERT INTO stays (room_id, guest_id, arrival, departure, state, held_until)
           VALUES ($1, $2, $3, $4, 'held', $5) RETURNING id`,
    values: [roomId, body.guestId, body.arrival, body.departure, addMinutes(new Date(), HOLD_MINUTES)],
    query_timeout: QUERY_TIMEOUT_MS,
  } as never);
  return String(inserted.rows[0].id);
}

export function holdRoutes(app: FastifyInstance, deps: { redis: RedisClientType; pool: Pool }): void {
  app.post<{ Params: { roomId: string }; Body: HoldBody }>('/rooms/:roomId/holds', async (req, reply) => {
    const { roomId } = req.params;
    const { arrival, departure } = req.body;
    if (!isBefore(parseISO(arrival), parseISO(departure))) {
      return reply.code(400).send({ error: 'departure must be after arrival' });
    }
    try {
      const holdId = await placeHold(deps.redis, deps.pool, roomId, req.body);
      if (!holdId) return reply.code(409).send({ error: 'room is taken for these nights' });
      return reply.code(201).send({ holdId, minutes: HOLD_MINUTES });
    } catch (err) {
      if (err instanceof RoomBusy) {
        req.log.info({ err, roomId }, 'room busy');
        return reply.code(423).send({ error: 'room is being booked, try again' });
      }
      throw err;
    }
  });
}
