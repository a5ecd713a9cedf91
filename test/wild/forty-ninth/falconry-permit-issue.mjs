import Fastify from 'fastify';
import Stripe from 'stripe';
import pg from 'pg';
import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';

const app = Fastify({ logger: true });
const stripe = new Stripe(process.env.STRIPE_SECRET, { timeout: 15_000, maxNetworkRetries: 1 });
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, query_timeout: 5_000 });

const redis = createClient({
  url: process.env.REDIS_URL,
  disableOfflineQueue: true,
  pingInterval: 5_000,
  socket: { connectTimeout: 3_000, socketTimeout: 12_000 },
});
redis.on('error', (err) => app.log.error({ err }, 'redis'));
await redis.connect();

const LOCK_MS = 90_000;
const FEE_CENTS = { apprentice: 4_500, general: 9_000, master: 14_000 };

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const findPermit = async (requestKey) => {
  const { rows } = await pool.query('SELECT id, number, grade FROM falconry_permits WHERE request_key = $1', [requestKey]);
  return rows[0] ?? null;
};

async function issue(requestKey, { falconerId, grade, paymentMethod }) {
  const existing = await findPermit(requestKey);
  if (existing) return { permit: existing, created: false };

  const payment = await stripe.paymentIntents.create(
    {
      amount: FEE_CENTS[grade],
      currency: 'eur',
      payment_method: paymentMethod,
      confirm: true,
      automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
      metadata: { falconerId, grade },
    },
    { idempotencyKey: `falconry:${requestKey}` },
  );
  if (payment.status !== 'succeeded') {
    throw Object.assign(new Error(`payment is ${payment.status}`), { statusCode: 402 });
  }

  const { rows } = await pool.query(
    `INSERT INTO falconry_permits (request_key, falconer_id, grade, payment_id)
     VALUES ($1, $2, $3, $4)
     ON CONFLICT (request_key) DO NOTHING
     RETURNING id, number, grade`,
    [requestKey, falconerId, grade, payment.id],
  );
  if (rows.length > 0) return { permit: rows[0], created: true };
  return { permit: await findPermit(requestKey), created: false };
}

const schema = {
  headers: {
    type: 'object',
    required: ['idempotency-key'],
    properties: { 'idempotency-key': { type: 'string', minLength: 16, maxLength: 64 } },
  },
  body: {
    type: 'object',
    required: ['falconerId', 'grade', 'paymentMethod'],
    properties: {
      falconerId: { type: 'string' },
      grade: { type: 'string', enum: Object.keys(FEE_CENTS) },
      paymentMethod: { type: 'string' },
    },
  },
};

app.post('/permits', { schema }, async (request, reply) => {
  const requestKey = `${request.body.falconerId}:${request.headers['idempotency-key']}`;
  const lockKey = `lock:falconry-permit:${requestKey}`;
  const token = randomUUID();

  let locked;
  try {
    locked = await redis.set(lockKey, token, { condition: 'NX', expiration: { type: 'PX', value: LOCK_MS } });
  } catch (err) {
    request.log.error({ err }, 'permit lock unavailable');
    return reply.code(503).send({ error: 'try again later' });
  }
  if (locked !== 'OK') {
    return reply.code(409).header('retry-after', '5').send({ error: 'request is in progress' });
  }

  try {
    const { permit, created } = await issue(requestKey, request.body);
    reply.code(created ? 201 : 200);
    return permit;
  } finally {
    await redis
      .eval(RELEASE, { keys: [lockKey], arguments: [token] })
      .catch((err) => request.log.warn({ err }, 'permit lock left to expire'));
  }
});

await app.listen({ port: Number(process.env.PORT ?? 3000), host: '0.0.0.0' });
