import { Redis } from '@upstash/redis';
import { randomUUID } from 'node:crypto';
import { neon } from '@neondatabase/serverless';

const redis = new Redis({
  url: process.env.UPSTASH_REDIS_REST_URL!,
  token: process.env.UPSTASH_REDIS_REST_TOKEN!,
});
const sql = neon(process.env.DATABASE_URL!);

const LOCK_SECONDS = 30;

const releaseScript = `
  if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
  end
  return 0
`;

async function acquireLock(key: string, owner: string): Promise<boolean> {
  const current = await redis.get<string>(key);
  if (current !== null) {
    return false;
  }
  await redis.set(key, owner, { ex: LOCK_SECONDS });
  return true;
}

async function releaseLock(key: string, owner: string): Promise<void> {
  await redis.eval<[string], number>(releaseScript, [key], [owner]);
}

async function createCertificate(courseId: string, studentId: string): Promise<string> {
  const existing = await sql`
    SELECT serial FROM certificates WHERE course_id = ${courseId} AND student_id = ${studentId}
  `;
  if (existing.length > 0) return existing[0].serial as string;

  const created = await sql`
    INSERT INTO certificates (course_id, student_id, serial, issued_at)
    VALUES (${courseId}, ${studentId}, 'C-' || nextval('certificate_serial'), now())
    RETURNING serial
  `;
  return created[0].serial as string;
}

export async function POST(request: Request): Promise<Response> {
  const { courseId, studentId } = (await request.json()) as { courseId?: string; studentId?: string };
  if (!courseId || !studentId) {
    return Response.json({ error: 'courseId and studentId are required' }, { status: 400 });
  }

  const lockKey = `lock:certificate:${courseId}:${studentId}`;
  const owner = randomUUID();

  // students like to click twice
  if (!(await acquireLock(lockKey, owner))) {
    return Response.json({ error: 'certificate is being issued' }, { status: 409 });
  }

  try {
    const serial = await createCertificate(courseId, studentId);
    return Response.json({ serial });
  } finally {
    await releaseLock(lockKey, owner).catch((err) => console.warn('release failed', err));
  }
}
