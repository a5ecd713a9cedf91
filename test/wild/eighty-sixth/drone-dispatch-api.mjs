import Fastify from 'fastify';
import Redis from 'ioredis';
import pg from 'pg';
import { createHash, randomUUID } from 'node:crypto';

const CLAIM_S = 30;
const KEEP_S = 24 * 3600;

const redis = new Redis(process.env.REDIS_URL);
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 5_000 });
const app = Fastify({ logger: true });
redis.on('error', (err) => app.log.error(err, 'redis'));

const FINISH = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
  return 1
end
return 0`;
const DROP = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

// dispatches: UNIQUE (account_id, idem_key). The flight planner picks up new rows.
async function createDispatch(account, idem, print, { pickup, dropoff, grams }) {
  await db.query(
    `INSERT INTO dispatches (account_id, idem_key, fingerprint, pickup, dropoff, grams)
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (account_id, idem_key) DO NOTHING`,
    [account, idem, print, pickup, dropoff, grams]);
  const { rows: [row] } = await db.query(
    'SELECT id, fingerprint, pickup, dropoff, grams FROM dispatches WHERE account_id = $1 AND idem_key = $2',
    [account, idem]);
  if (row.fingerprint !== print) return { status: 422, body: { error: 'key_reused' } };
  return { status: 201, body: { id: row.id, pickup: row.pickup, dropoff: row.dropoff, grams: row.grams } };
}

const schema = {
  body: {
    type: 'object',
    required: ['pickup', 'dropoff', 'grams'],
    additionalProperties: false,
    properties: { pickup: { type: 'string' }, dropoff: { type: 'string' }, grams: { type: 'integer', minimum: 1, maximum: 2500 } },
  },
};

app.post('/dispatches', { schema }, async (req, reply) => {
  const account = req.headers['x-account-id'];
  const idem = req.headers['idempotency-key'];
  if (!account || !idem || idem.length > 200) return reply.code(400).send({ error: 'missing_headers' });

  const { pickup, dropoff, grams } = req.body;
  const print = createHash('sha256').update(JSON.stringify([pickup, dropoff, grams])).digest('hex');
  const key = `idem:dispatch:${encodeURIComponent(account)}:${idem}`;
  const claim = JSON.stringify({ state: 'busy', print, by: randomUUID() });

  if ((await redis.set(key, claim, 'EX', CLAIM_S, 'NX')) !== 'OK') {
    const seen = JSON.parse((await redis.get(key)) ?? 'null');
    if (seen && seen.print !== print) return reply.code(422).send({ error: 'key_reused' });
    if (!seen || seen.state === 'busy') return reply.code(409).header('retry-after', '2').send({ error: 'in_progress' });
    return reply.code(seen.status).header('idempotent-replay', 'true').send(seen.body);
  }

  const drop = () => redis.eval(DROP, 1, key, claim).catch((e) => req.log.warn(e, 'claim not dropped'));
  let result;
  try {
    result = await createDispatch(account, idem, print, req.body);
  } catch (err) {
    await drop();
    throw err;
  }
  if (result.status !== 201) {
    await drop();
    return reply.code(result.status).send(result.body);
  }
  const done = JSON.stringify({ state: 'done', print, ...result });
  await redis.eval(FINISH, 1, key, claim, done, KEEP_S).catch((e) => req.log.warn(e, 'answer not kept'));
  return reply.code(result.status).send(result.body);
});

await app.listen({ port: Number(process.env.PORT ?? 3000), host: '0.0.0.0' });
