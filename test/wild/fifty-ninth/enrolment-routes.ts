import type { FastifyInstance } from 'fastify';
import { Type, type Static } from '@sinclair/typebox';
import Redis from 'ioredis';
import { Pool } from 'pg';
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { env } from './env';

declare module 'ioredis' {
  interface RedisCommander<Context> {
    unlockIfMine(key: string, token: string): Promise<number>;
  }
}

const redis = new Redis(env.REDIS_URL, { commandTimeout: 1_000, maxRetriesPerRequest: 1 });
redis.defineCommand('unlockIfMine', {
  numberOfKeys: 1,
  lua: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`,
});

// every statement is cut off by the server after 2 s; we run four of them under a 20 s lock
const pool = new Pool({
  connectionString: env.DATABASE_URL,
  statement_timeout: 2_000,
  query_timeout: 2_500,
  connectionTimeoutMillis: 2_000,
});

const LOCK_TTL_MS = 20_000;

export async function lockCourse(courseId: string, waitMs = 3_000): Promise<string | null> {
  const key = `course:${courseId}:enrol`;
  const giveUpAt = Date.now() + waitMs;
  for (;;) {
    const token = randomBytes(20).toString('hex');
    if ((await redis.set(key, token, 'PX', LOCK_TTL_MS, 'NX')) === 'OK') return token;
    if (Date.now() >= giveUpAt) return null;
    await sleep(60 + Math.random() * 120);
  }
}

export async function unlockCourse(courseId: string, token: string): Promise<boolean> {
  return (await redis.unlockIfMine(`course:${courseId}:enrol`, token)) === 1;
}

const Enrol = Type.Object({ studentId: Type.String({ format: 'uuid' }) });

/**
 * The lock makes the rush at 8:00 on enrolment day queue up here instead of on the row lock in
 * Postgres. The seat count itself is guarded by the UPDATE, which cannot exceed the capacity.
 */
async function enrol(courseId: string, studentId: string): Promise<'enrolled' | 'full' | 'already'> {
  const client = await pool.connect();
  let broken: Error | undefined;
  try {
    await client.query('BEGIN');
    const ins = await client.query(
      `INSERT INTO enrolments (course_id, student_id) VALUES ($1, $2)
       ON CONFLICT (course_id, student_id) DO NOTHING`,
      [courseId, studentId],
    );
    if (ins.rowCount === 0) {
      await client.query('ROLLBACK');
      return 'already';
    }
    const seat = await client.query(
      `UPDATE courses SET seats_taken = seats_taken + 1
        WHERE id = $1 AND seats_taken < capacity`,
      [courseId],
    );
    if (seat.rowCount === 0) {
      await client.query('ROLLBACK');
      return 'full';
    }
    await client.query('COMMIT');
    return 'enrolled';
  } catch (err) {
    broken = err as Error;
    throw err;
  } finally {
    client.release(broken); // a connection in an unknown state is thrown away, which rolls back
  }
}

export default async function enrolmentRoutes(app: FastifyInstance) {
  app.post<{ Params: { id: string }; Body: Static<typeof Enrol> }>(
    '/courses/:id/enrolments',
    { schema: { body: Enrol } },
    async (req, reply) => {
      const courseId = req.params.id;
      const token = await lockCourse(courseId);
      if (!token) return reply.code(503).header('retry-after', '5').send({ error: 'busy' });
      try {
        const outcome = await enrol(courseId, req.body.studentId);
        return reply.code(outcome === 'enrolled' ? 201 : 409).send({ outcome });
      } finally {
        await unlockCourse(courseId, token).then(
          (mine) => mine || req.log.warn({ courseId }, 'lock had expired before release'),
          (err) => req.log.warn({ err, courseId }, 'unlock failed, lock will expire'),
        );
      }
    },
  );

  app.addHook('onClose', async () => {
    await redis.quit();
    await pool.end();
  });
}
