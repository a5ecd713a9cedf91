import { randomUUID } from 'node:crypto';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import Redis from 'ioredis';
import { Pool } from 'pg';

declare module 'fastify' {
  interface FastifyRequest {
    exclusiveKey: string | null;
  }
  interface FastifyContextConfig {
    exclusive?: (req: FastifyRequest) => string;
  }
}

const redis = new Redis(process.env.REDIS_URL!, { commandTimeout: 1_000 });
const pool = new Pool({ connectionTimeoutMillis: 2_000, query_timeout: 4_000, statement_timeout: 3_500 });

const TTL_MS = 25_000;

/** Routes with `config.exclusive` run one at a time per key, the rest is left alone. */
export function registerExclusive(app: FastifyInstance): void {
  app.decorateRequest('exclusiveKey', null);

  app.addHook('preHandler', async (req: FastifyRequest, reply: FastifyReply) => {
    const name = req.routeOptions.config.exclusive?.(req);
    if (!name) return;
    req.exclusiveKey = `exclusive:${name}`;
    const set = await redis.set(req.exclusiveKey, randomUUID(), 'PX', TTL_MS, 'NX');
    if (set !== 'OK') {
      reply.header('retry-after', '2');
      return reply.code(409).send({ error: 'busy', message: 'Someone else is changing this, try again.' });
    }
  });

  // onSend and not onResponse: the latter waits for slow clients.
  app.addHook('onSend', async (req, _reply, payload) => {
    if (req.exclusiveKey) {
      const key = req.exclusiveKey;
      req.exclusiveKey = null;
      await redis.del(key).catch((err) => req.log.warn({ err, key }, 'exclusive key left behind'));
    }
    return payload;
  });
}

export async function build(): Promise<FastifyInstance> {
  const app = Fastify({ logger: true });
  registerExclusive(app);

  app.post<{ Params: { id: string }; Body: { partySize: number } }>(
    '/shuttles/:id/riders',
    {
      config: { exclusive: (req) => `shuttle:${(req.params as { id: string }).id}` },
      schema: {
        body: {
          type: 'object',
          required: ['partySize'],
          properties: { partySize: { type: 'integer', minimum: 1, maximum: 8 } },
        },
      },
    },
    async (req, reply) => {
      const { id } = req.params;
      const { rows } = await pool.query<{ capacity: number; riders: number }>(
        'SELECT capacity, riders FROM shuttles WHERE id = $1',
        [id],
      );
      if (rows.length === 0) return reply.code(404).send({ error: 'no_such_shuttle' });
      const riders = rows[0].riders + req.body.partySize;
      if (riders > rows[0].capacity) return reply.code(422).send({ error: 'shuttle_full' });
      await pool.query('UPDATE shuttles SET riders = $2 WHERE id = $1', [id, riders]);
      return reply.code(201).send({ shuttle: id, riders });
    },
  );

  return app;
}
