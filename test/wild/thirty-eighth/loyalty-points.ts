import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify from 'fastify';
import Redis from 'ioredis';
import { Pool } from 'pg';

const app = Fastify({ logger: true });
const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 2_000,
  statement_timeout: 3_000,
});

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

class Busy extends Error {
  statusCode = 423;
}

async function withLock<T>(key: string, work: () => Promise<T>): Promise<T> {
  const token = randomUUID();
  const giveUp = Date.now() + 4_000;
  while ((await redis.set(key, token, 'PX', 15_000, 'NX')) !== 'OK') {
    if (Date.now() > giveUp) throw new Busy(`${key} is taken`);
    await sleep(40 + Math.random() * 80);
  }
  try {
    return await work();
  } finally {
    await redis.eval(RELEASE, 1, key, token).catch((err) => app.log.warn({ err, key }, 'release'));
  }
}

interface Member {
  id: string;
  points: number;
  tier: 'basic' | 'silver' | 'gold';
}

async function findMember(id: string): Promise<Member | undefined> {
  const { rows } = await pool.query<Member>('SELECT id, points, tier FROM members WHERE id = $1', [id]);
  return rows[0];
}

function tierOf(points: number): Member['tier'] {
  if (points >= 10_000) return 'gold';
  return points >= 2_500 ? 'silver' : 'basic';
}

app.post<{ Params: { id: string }; Body: { delta: number; reason: string } }>(
  '/members/:id/points',
  {
    schema: {
      body: {
        type: 'object',
        required: ['delta', 'reason'],
        properties: { delta: { type: 'integer' }, reason: { type: 'string', maxLength: 200 } },
      },
    },
  },
  async (req, reply) => {
    const { delta, reason } = req.body;
    const member = await findMember(req.params.id);
    if (!member) return reply.code(404).send({ error: 'no such member' });

    return withLock(`points:${member.id}`, async () => {
      const points = member.points + delta;
      if (points < 0) return reply.code(422).send({ error: 'not enough points' });

      const tier = tierOf(points);
      await pool.query(
        `WITH m AS (UPDATE members SET points = $2, tier = $3 WHERE id = $1 RETURNING id)
         INSERT INTO point_moves (member_id, delta, reason) SELECT id, $4, $5 FROM m`,
        [member.id, points, tier, delta, reason],
      );
      return { points, tier };
    });
  },
);

await app.listen({ host: '0.0.0.0', port: Number(process.env.PORT ?? 3000) });
