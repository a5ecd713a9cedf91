import { randomUUID } from 'node:crypto';
import Fastify from 'fastify';
import pg from 'pg';
import { createClient } from 'redis';

const app = Fastify({ logger: true });

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => app.log.error({ err }, 'redis'));

const pool = new pg.Pool({
  connectionTimeoutMillis: 2_000,
  statement_timeout: 3_000,
  query_timeout: 3_000,
});

const LOCK_MS = 30_000;

const UNLOCK = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

async function lockClass(classId) {
  const token = randomUUID();
  const res = await redis.set(`class:${classId}:lock`, token, 'PX', LOCK_MS, 'NX');
  return res === 'OK' ? token : null;
}

async function unlockClass(classId, token) {
  try {
    await redis.eval(UNLOCK, { keys: [`class:${classId}:lock`], arguments: [token] });
  } catch (err) {
    app.log.warn({ err, classId }, 'unlock failed');
  }
}

async function promoteFirst(classId) {
  const { rows: spots } = await pool.query(
    `SELECT c.capacity - count(b.id) AS free
       FROM classes c LEFT JOIN bookings b ON b.class_id = c.id
      WHERE c.id = $1 GROUP BY c.capacity`,
    [classId],
  );
  if (!spots.length || Number(spots[0].free) < 1) return null;

  const { rows: waiting } = await pool.query(
    'SELECT id, member_id FROM waitlist WHERE class_id = $1 AND promoted_at IS NULL ORDER BY joined_at LIMIT 1',
    [classId],
  );
  if (!waiting.length) return null;

  await pool.query(
    `WITH booked AS (INSERT INTO bookings (class_id, member_id) VALUES ($1, $2))
     UPDATE waitlist SET promoted_at = now() WHERE id = $3`,
    [classId, waiting[0].member_id, waiting[0].id],
  );
  return waiting[0].member_id;
}

// Called by the booking service whenever somebody cancels. Cancellations come
// in bursts (usually just before the 12 h limit) and hit all pods at once.
app.post('/classes/:classId/promote', async (request, reply) => {
  const { classId } = request.params;
  const token = await lockClass(classId);
  if (!token) {
    return reply.code(409).header('retry-after', '2').send({ error: 'promotion in progress' });
  }
  try {
    const memberId = await promoteFirst(classId);
    return reply.send({ promoted: memberId });
  } finally {
    await unlockClass(classId, token);
  }
});

await redis.connect();
await app.listen({ host: '0.0.0.0', port: Number(process.env.PORT ?? 3000) });
