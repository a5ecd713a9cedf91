'use strict';

const express = require('express');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const db = require('../db'); // knex, postgres
const logger = require('../logger');

const redlock = new Redlock([new Redis(process.env.REDIS_URL)], {
  driftFactor: 0.01,
  retryCount: 20,
  retryDelay: 150,
  retryJitter: 100,
});
redlock.on('clientError', (err) => logger.warn({ err }, 'redlock client'));

const LOCK_MS = 15000;

class CourseFull extends Error {}
class NotEligible extends Error {}

async function withCourseLock(courseId, fn) {
  const lock = await redlock.lock(`locks:course:${courseId}`, LOCK_MS);
  try {
    return await fn();
  } finally {
    await lock.unlock().catch((err) => logger.warn({ err, courseId }, 'course unlock'));
  }
}

async function takePlace(trx, courseId, studentId) {
  const course = await trx('courses').where({ id: courseId }).first();
  const [{ count }] = await trx('enrolments')
    .where({ course_id: courseId })
    .whereNull('dropped_at')
    .count();
  if (Number(count) >= course.capacity) throw new CourseFull(courseId);

  const [enrolment] = await trx('enrolments')
    .insert({ course_id: courseId, student_id: studentId, enrolled_at: trx.fn.now() })
    .returning(['id', 'enrolled_at']);
  return enrolment;
}

async function enrol(courseId, studentId) {
  return db.transaction(async (trx) => {
    await trx.raw("SET LOCAL statement_timeout = '2s'");

    const missing = await trx('course_prerequisites as p')
      .leftJoin('completed_courses as c', function () {
        this.on('c.course_id', 'p.required_course_id').andOnVal('c.student_id', studentId);
      })
      .where('p.course_id', courseId)
      .whereNull('c.course_id')
      .pluck('p.required_course_id');
    if (missing.length > 0) throw new NotEligible(missing.join(', '));

    const enrolment = await withCourseLock(courseId, () => takePlace(trx, courseId, studentId));

    await trx('timetable_entries').insert(
      trx.select(trx.raw('?::uuid', [studentId]), 'weekday', 'starts', 'ends', 'course_id')
        .from('course_sessions')
        .where({ course_id: courseId }),
    );
    await trx('audit_log').insert({ actor: studentId, action: 'enrol', subject: courseId });
    return enrolment;
  });
}

const router = express.Router();

router.post('/courses/:courseId/enrolments', async (req, res, next) => {
  try {
    const enrolment = await enrol(req.params.courseId, req.user.studentId);
    res.status(201).json(enrolment);
  } catch (err) {
    if (err instanceof CourseFull) return res.status(409).json({ error: 'course_full' });
    if (err instanceof NotEligible) return res.status(422).json({ error: 'prerequisites', missing: err.message });
    if (err.name === 'LockError') return res.status(503).set('retry-after', '2').json({ error: 'busy' });
    next(err);
  }
});

module.exports = { router, enrol };
