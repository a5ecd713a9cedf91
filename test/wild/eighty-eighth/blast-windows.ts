import Fastify from 'fastify';
import { Redis } from 'ioredis';
import { Pool } from 'pg';
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock5';

interface Window { id: number; pit: string; from: number; to: number; crew: string }
type Outcome = { clash: Window } | { booked: Window };

const LOCK_MS = 15_000; // two queries, each at most 2 s to connect and 4 s to run

const app = Fastify({ logger: true });
const db = new Pool({ connectionTimeoutMillis: 2_000, statement_timeout: 3_000, query_timeout: 4_000 });

const nodes = (process.env.LOCK_NODES ?? 'lock-a:6379,lock-b:6379,lock-c:6379').split(',').map((hp) => {
  const [host, port] = hp.split(':');
  const node = new Redis({ host, port: Number(port), commandTimeout: 500, maxRetriesPerRequest: 1, enableOfflineQueue: false });
  node.on('error', (err) => app.log.warn({ host, err: err.message }, 'lock node'));
  return node;
});

const redlock = new Redlock(nodes, { retryCount: 5, retryDelay: 200, retryJitter: 100, automaticExtensionThreshold: 2_000 });
redlock.on('error', (err) => {
  if (!(err instanceof ResourceLockedError)) app.log.warn(err, 'redlock');
});

app.post<{ Params: { pit: string }; Body: Pick<Window, 'from' | 'to' | 'crew'> }>('/pits/:pit/windows', {
  schema: {
    body: {
      type: 'object',
      required: ['from', 'to', 'crew'],
      properties: { from: { type: 'integer' }, to: { type: 'integer' }, crew: { type: 'string' } },
    },
  },
}, async (req, reply) => {
  const { pit } = req.params;
  const { from, to, crew } = req.body;
  const state: { entered: boolean; outcome?: Outcome } = { entered: false };

  try {
    await redlock.using([`blast:${pit}`], LOCK_MS, async (signal) => {
      state.entered = true;
      const taken = await db.query<Window>(OVERLAP, [pit, from, to]);
      if (taken.rows.length > 0) {
        state.outcome = { clash: taken.rows[0] };
        return;
      }
      if (signal.aborted) throw signal.error;
      const added = await db.query<Window>(INSERT, [pit, from, to, crew]);
      state.outcome = { booked: added.rows[0] };
    });
  } catch (err) {
    if (!state.entered && err instanceof ExecutionError) {
      return reply.code(423).send({ error: 'pit is being planned, try again' });
    }
    if (!state.outcome) throw err;
    req.log.warn(err, 'unlock failed after the plan was settled');
  }
  return reply.code(state.outcome && 'clash' in state.outcome ? 409 : 201).send(state.outcome);
});

app.listen({ port: Number(process.env.PORT ?? 8080), host: '0.0.0.0' });

const OVERLAP = `SELECT id, pit, "from", "to", crew FROM blast_windows WHERE pit = $1 AND "from" < $3 AND "to" > $2 LIMIT 1`;
const INSERT = `INSERT INTO blast_windows (pit, "from", "to", crew) VALUES ($1, $2, $3, $4) RETURNING id, pit, "from", "to", crew`;
