import { randomUUID } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { Pool } from 'pg';
import { createClient, type RedisClientType } from 'redis';

import { config } from './config';

const LEASE_MS = 20_000;
const COMMIT_BUDGET_MS = 8_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

class Lease implements AsyncDisposable {
  constructor(
    private readonly redis: RedisClientType,
    readonly key: string,
    private readonly token: string,
    private readonly validUntil: number,
    private readonly onError: (err: unknown) => void,
  ) {}

  require(ms: number): void {
    if (this.validUntil - performance.now() < ms) throw new Error(`lease on ${this.key} is about to run out`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.redis.eval(RELEASE, { keys: [this.key], arguments: [this.token] });
    } catch (err) {
      this.onError(err);
    }
  }
}

async function tryLease(redis: RedisClientType, key: string, onError: (err: unknown) => void): Promise<Lease | null> {
  const token = randomUUID();
  const validUntil = performance.now() + LEASE_MS;
  const reply = await redis.set(key, token, { NX: true, PX: LEASE_MS });
  return reply === 'OK' ? new Lease(redis, key, token, validUntil, onError) : null;
}

interface BookingBody {
  patientId: string;
  startsAt: string;
  minutes: number;
}

export async function appointmentRoutes(app: FastifyInstance): Promise<void> {
  const redis = createClient({ url: config.redisUrl }) as RedisClientType;
  redis.on('error', (err) => app.log.error({ err }, 'redis'));
  await redis.connect();
  const pool = new Pool({
    connectionString: config.databaseUrl,
    connectionTimeoutMillis: 2_000,
    statement_timeout: 2_500,
    query_timeout: 3_000,
  });
  app.addHook('onClose', async () => {
    await redis.close();
    await pool.end();
  });

  app.post<{ Params: { clinicianId: string }; Body: BookingBody }>(
    '/clinicians/:clinicianId/appointments',
    async (req, reply) => {
      const { clinicianId } = req.params;
      const { patientId, startsAt, minutes } = req.body;
      const day = startsAt.slice(0, 10);

      await using lease = await tryLease(redis, `calendar:${clinicianId}`, (err) =>
        req.log.warn({ err, clinicianId }, 'calendar lock not released'),
      );
      if (!lease) return reply.code(409).send({ error: 'calendar is being changed, try again' });

      const clash = await pool.query(
        `SELECT 1 FROM appointments
          WHERE clinician_id = $1 AND cancelled_at IS NULL
            AND tstzrange(starts_at, ends_at) && tstzrange($2::timestamptz, $2::timestamptz + make_interval(mins => $3))`,
        [clinicianId, startsAt, minutes],
      );
      if (clash.rowCount) return reply.code(422).send({ error: 'slot is taken' });

      const { rows } = await pool.query<{ booked: number; cap: number }>(
        `SELECT count(a.id)::int AS booked, c.daily_cap AS cap
           FROM clinicians c LEFT JOIN appointments a
             ON a.clinician_id = c.id AND a.starts_at::date = $2::date AND a.cancelled_at IS NULL
          WHERE c.id = $1 GROUP BY c.daily_cap`,
        [clinicianId, day],
      );
      if (!rows[0]) return reply.code(404).send({ error: 'unknown clinician' });
      if (rows[0].booked >= rows[0].cap) return reply.code(422).send({ error: 'day is full' });

      lease.require(COMMIT_BUDGET_MS);
      const id = randomUUID();
      try {
        await pool.query(
          `INSERT INTO appointments (id, clinician_id, patient_id, starts_at, ends_at)
           VALUES ($1, $2, $3, $4::timestamptz, $4::timestamptz + make_interval(mins => $5))`,
          [id, clinicianId, patientId, startsAt, minutes],
        );
      } catch (err) {
        // exclusion constraint appointments_no_overlap
        if ((err as { code?: string }).code === '23P01') return reply.code(422).send({ error: 'slot is taken' });
        throw err;
      }
      req.log.info({ id, clinicianId, startsAt }, 'appointment booked');
      return reply.code(201).send({ id });
    },
  );
}
