import Fastify from 'fastify';
import Redis from 'ioredis';
import { nanoid } from 'nanoid';
import { Pool } from 'pg';
import dayjs from 'dayjs';

const app = Fastify({ logger: true });
const redis = new Redis(process.env.REDIS_URL!);
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  statement_timeout: 3_000,
  connectionTimeoutMillis: 3_000,
});

const OWNER = `${process.env.HOSTNAME}:${nanoid()}`;
const LOCK_MS = 25_000;

redis.defineCommand('takeLock', {
  numberOfKeys: 1,
  // A call repeated after a dropped connection finds its own lock again.
  lua: `
    local holder = redis.call('GET', KEYS[1])
    if not holder or holder == ARGV[1] then
      redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
      return 1
    end
    return 0`,
});
redis.defineCommand('dropLock', {
  numberOfKeys: 1,
  lua: `
    if redis.call('GET', KEYS[1]) == ARGV[1] then
      return redis.call('DEL', KEYS[1])
    end
    return 0`,
});

declare module 'ioredis' {
  interface RedisCommander<Context> {
    takeLock(key: string, owner: string, ms: number): Promise<number>;
    dropLock(key: string, owner: string): Promise<number>;
  }
}

async function exclusively<T>(hiveId: string, fn: () => Promise<T>): Promise<T | undefined> {
  const key = `hive:${hiveId}:treatments`;
  if ((await redis.takeLock(key, OWNER, LOCK_MS)) !== 1) return undefined;
  try {
    return await fn();
  } finally {
    await redis.dropLock(key, OWNER).catch((err) => app.log.warn({ err, key }, 'lock expires by itself'));
  }
}

interface TreatmentBody {
  substance: 'oxalic' | 'formic' | 'thymol';
  doseMl: number;
}

// No more than the permitted yearly dose of a substance may be registered for a hive.
app.post<{ Params: { hive: string }; Body: TreatmentBody }>('/hives/:hive/treatments', async (req, reply) => {
  const { hive } = req.params;
  const { substance, doseMl } = req.body;
  const out = await exclusively(hive, async () => {
    const limit = await pool.query('SELECT yearly_ml FROM substances WHERE name = $1', [substance]);
    if (limit.rowCount === 0) return { code: 400, body: { error: 'unknown substance' } };
    const used = await pool.query(
      `SELECT coalesce(sum(dose_ml), 0)::float AS ml FROM treatments
        WHERE hive_id = $1 AND substance = $2 AND given_on >= $3`,
      [hive, substance, dayjs().startOf('year').format('YYYY-MM-DD')],
    );
    if (used.rows[0].ml + doseMl > limit.rows[0].yearly_ml) {
      return { code: 409, body: { error: 'yearly dose exceeded', used: used.rows[0].ml } };
    }
    const ins = await pool.query(
      `INSERT INTO treatments (hive_id, substance, dose_ml, given_on)
       VALUES ($1, $2, $3, current_date) RETURNING id`,
      [hive, substance, doseMl],
    );
    return { code: 201, body: { id: ins.rows[0].id } };
  });
  if (!out) return reply.code(423).send({ error: 'hive is being edited' });
  return reply.code(out.code).send(out.body);
});

app.listen({ port: Number(process.env.PORT ?? 3000), host: '0.0.0.0' });
