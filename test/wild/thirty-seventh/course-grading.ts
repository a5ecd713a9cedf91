import Redis from 'ioredis';
import Redlock, { ExecutionError } from 'redlock5';
import { Pool } from 'pg';

// three independent masters, no replication between them
const nodes = ['redis-1', 'redis-2', 'redis-3'].map(
  (host) => new Redis({ host, port: 6379, commandTimeout: 500, maxRetriesPerRequest: 1 }),
);
nodes.forEach((node) => node.on('error', (err) => console.error('redis node', err.message)));

const redlock = new Redlock(nodes, {
  driftFactor: 0.01,
  retryCount: 8,
  retryDelay: 200,
  retryJitter: 150,
  automaticExtensionThreshold: 4_000,
});
redlock.on('error', (err) => console.debug('redlock', err.message));

const db = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 2_000 });

const PASS_MARK = 50;

function finalGrade(points: number, maxPoints: number): 'A' | 'B' | 'C' | 'F' {
  const percent = (points / maxPoints) * 100;
  if (percent >= 85) return 'A';
  if (percent >= 70) return 'B';
  return percent >= PASS_MARK ? 'C' : 'F';
}

export class GradingInProgressError extends Error {}

/** Grades everything that has no final grade yet, then announces the course once. */
export async function publishGrades(courseId: string): Promise<{ graded: number; announced: boolean }> {
  try {
    return await redlock.using([`lock:grading:${courseId}`], 12_000, async (signal) => {
      let graded = 0;

      for (;;) {
        if (signal.aborted) throw signal.error ?? new Error('grading lock lost');

        const batch = await db.query<{ id: string; points: number; max_points: number }>(
          `SELECT id, points, max_points FROM submissions
            WHERE course_id = $1 AND final_grade IS NULL AND locked_at IS NOT NULL
            ORDER BY id LIMIT 100`,
          [courseId],
        );
        if (batch.rows.length === 0) break;

        for (const row of batch.rows) {
          if (signal.aborted) throw signal.error ?? new Error('grading lock lost');
          const result = await db.query(
            'UPDATE submissions SET final_grade = $2, graded_at = now() WHERE id = $1 AND final_grade IS NULL',
            [row.id, finalGrade(row.points, row.max_points)],
          );
          graded += result.rowCount ?? 0;
        }
      }

      if (signal.aborted) throw signal.error ?? new Error('grading lock lost');

      // the mailer reads course_announcements, course_id is its primary key
      const announcement = await db.query(
        `INSERT INTO course_announcements (course_id, kind, created_at)
         VALUES ($1, 'grades-published', now())
         ON CONFLICT (course_id) DO NOTHING`,
        [courseId],
      );
      return { graded, announced: announcement.rowCount === 1 };
    });
  } catch (err) {
    if (err instanceof ExecutionError) {
      throw new GradingInProgressError(`course ${courseId} is being graded or the lock is unavailable`);
    }
    throw err;
  }
}
