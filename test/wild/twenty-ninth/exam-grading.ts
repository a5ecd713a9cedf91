import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const GRADING_TTL_SECONDS = 180;

interface Request {
  params: { examId: string };
  user: { id: string };
}
interface Response {
  status(code: number): Response;
  json(body: unknown): Response;
}

export interface Submission {
  id: string;
  studentId: string;
  answers: Record<string, string>;
}

export interface ExamStore {
  submissions(examId: string): Promise<Submission[]>;
  answerKey(examId: string): Promise<Record<string, string>>;
  hasResult(examId: string, studentId: string): Promise<boolean>;
  /** Appends a result and mails the student. */
  publishResult(examId: string, studentId: string, points: number): Promise<void>;
  close(examId: string): Promise<void>;
  isClosed(examId: string): Promise<boolean>;
}

function score(submission: Submission, key: Record<string, string>): number {
  return Object.entries(key).filter(([q, right]) => submission.answers[q] === right).length;
}

/** POST /exams/:examId/grade. Impatient teachers click twice, so only one run at a time. */
export function gradeExam(store: ExamStore) {
  return async (req: Request, res: Response) => {
    const { examId } = req.params;
    const lockKey = `exam:${examId}:grading`;
    const requestId = randomUUID();

    try {
      const locked = await redis.set(lockKey, requestId, 'EX', GRADING_TTL_SECONDS, 'NX');
      if (locked !== 'OK') {
        console.info(`[grading] ${examId} already running, asked by ${req.user.id}`);
        return res.status(409).json({ error: 'This exam is being graded, please wait.' });
      }

      if (await store.isClosed(examId)) {
        return res.status(410).json({ error: 'This exam has been graded.' });
      }

      const key = await store.answerKey(examId);
      const submissions = await store.submissions(examId);
      // A class has 35 students at most and one publish takes about a second.
      for (const s of submissions) {
        if (await store.hasResult(examId, s.studentId)) continue; // an earlier run failed half-way
        await store.publishResult(examId, s.studentId, score(s, key));
      }
      await store.close(examId);

      console.info(`[grading] ${examId}: ${submissions.length} graded (${requestId})`);
      return res.status(200).json({ graded: submissions.length });
    } catch (err) {
      console.error(`[grading] ${examId} failed (${requestId})`, err);
      return res.status(500).json({ error: 'Grading failed.' });
    } finally {
      await redis.del(lockKey).catch((err) => console.error('[grading] unlock', err));
    }
  };
}
