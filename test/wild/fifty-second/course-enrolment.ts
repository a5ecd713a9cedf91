import type { FastifyInstance } from 'fastify';
import Redlock from 'redlock4';
import { z } from 'zod';
import { knex } from '../db';
import { redis } from '../redis';

const LOCK_TTL_MS = 20_000;

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 15,
  retryDelay: 200,
  retryJitter: 100,
});

const paramsSchema = z.object({ courseId: z.string().uuid() });

class CourseFullError extends Error {}
class CourseNotFoundError extends Error {}

export default async function enrolmentRoutes(app: FastifyInstance): Promise<void> {
  redlock.on('clientError', (err: Error) => app.log.warn({ err }, 'redlock client error'));

  async function enrol(courseId: string, studentId: string): Promise<string> {
    return knex.transaction(async (trx) => {
      await trx.raw("SET LOCAL statement_timeout = '3s'");
      const lock = await redlock.lock(`lock:course-seats:${courseId}`, LOCK_TTL_MS);
      try {
        const course = await trx('courses').where({ id: courseId, published: true }).first();
        if (!course) throw new CourseNotFoundError();

        const existing = await trx('enrolments').where({ course_id: courseId, student_id: studentId }).first();
        if (existing) return existing.id;

        const [{ taken }] = await trx('enrolments').where({ course_id: courseId }).count({ taken: '*' });
        if (Number(taken) >= course.capacity) throw new CourseFullError();

        const [row] = await trx('enrolments')
          .insert({ course_id: courseId, student_id: studentId, enrolled_at: trx.fn.now() })
          .returning('id');
        await trx('audit_log').insert({ actor_id: studentId, action: 'enrolled', subject_id: courseId });
        return row.id;
      } finally {
        await lock.unlock().catch((err: Error) => app.log.warn({ err, courseId }, 'unlock failed'));
      }
    });
  }

  app.post('/courses/:courseId/enrolments', { preHandler: app.authenticate }, async (request, reply) => {
    const params = paramsSchema.safeParse(request.params);
    if (!params.success) return reply.code(400).send({ error: 'invalid_course' });

    try {
      const id = await enrol(params.data.courseId, request.user.id);
      return reply.code(201).send({ id });
    } catch (err) {
      if (err instanceof CourseNotFoundError) return reply.code(404).send({ error: 'not_found' });
      if (err instanceof CourseFullError) return reply.code(409).send({ error: 'course_full' });
      if (err instanceof Redlock.LockError) return reply.code(503).send({ error: 'busy' });
      throw err;
    }
  });
}
