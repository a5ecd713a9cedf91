import { randomUUID } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import fp from 'fastify-plugin';
import Redis, { type Result } from 'ioredis';
import { Pool } from 'pg';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    unlockIfMine(key: string, token: string): Result<number, Context>;
  }
}

declare module 'fastify' {
  interface FastifyInstance {
    tryLock<T>(name: string, ttlMs: number, work: () => Promise<T>): Promise<{ value: T } | null>;
  }
}

/**
 * fastify.tryLock(name, ttlMs, work) runs work unless another instance is busy
 * with the same name, and gives null then. Best effort only: the lock is not
 * renewed, so after ttlMs a second caller can get in. Use it to turn away
 * pointless competitors early, and let the database decide who wins.
 */
export const lockPlugin = fp(async (fastify: FastifyInstance, opts: { redisUrl: string }) => {
  const redis = new Redis(opts.redisUrl, { commandTimeout: 2_000, maxRetriesPerRequest: 1 });
  redis.on('error', (err) => fastify.log.error({ err }, 'redis'));
  redis.defineCommand('unlockIfMine', {
    numberOfKeys: 1,
    lua: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
  });

  fastify.decorate('tryLock', async <T>(name: string, ttlMs: number, work: () => Promise<T>) => {
    const key = `lock:${name}`;
    const token = randomUUID();
    const unlock = async () => {
      try {
        await redis.unlockIfMine(key, token);
      } catch (err) {
        fastify.log.warn({ err, key }, 'unlock failed, key will expire');
      }
    };
    let reply: 'OK' | null;
    try {
      reply = await redis.set(key, token, 'PX', ttlMs, 'NX');
    } catch (err) {
      await unlock();
      throw err;
    }
    if (reply !== 'OK') return null;
    try {
      return { value: await work() };
    } finally {
      await unlock();
    }
  });

  fastify.addHook('onClose', async () => {
    redis.disconnect();
  });
});

export async function bookingRoutes(fastify: FastifyInstance, { db }: { db: Pool }) {
  fastify.post<{ Body: { roomId: string; day: string; guestId: string } }>('/bookings', async (req, reply) => {
    const { roomId, day, guestId } = req.body;
    const result = await fastify.tryLock(`room:${roomId}:${day}`, 10_000, () =>
      // unique (room_id, day): this is what rules out double bookings
      db.query(
        `insert into bookings (room_id, day, guest_id) values ($1, $2, $3)
         on conflict (room_id, day) do nothing returning id`,
        [roomId, day, guestId],
      ),
    );
    if (!result) return reply.code(409).send({ error: 'somebody is booking this room right now' });
    if (result.value.rowCount === 0) return reply.code(409).send({ error: 'already booked' });
    return reply.code(201).send({ id: result.value.rows[0].id });
  });
}
