'use strict';

const fastify = require('fastify')({ logger: true });
const Redis = require('ioredis');
const { renderPdf } = require('./render.cjs');

const redis = new Redis(process.env.REDIS_URL);

const LIMIT = 6;
const SLOTS = 'pdf:rendering';

async function enter() {
  const n = await redis.incr(SLOTS);
  return n <= LIMIT;
}

async function leave() {
  await redis.decr(SLOTS);
}

fastify.post('/pdf', async (request, reply) => {
  if (!(await enter())) {
    return reply.code(429).header('retry-after', '5').send({ error: 'too many renderings' });
  }

  try {
    const pdf = await renderPdf(request.body.html, { timeoutMs: 30_000 });
    return reply.type('application/pdf').send(pdf);
  } finally {
    await leave();
  }
});

fastify.get('/pdf/slots', async () => {
  const used = Number((await redis.get(SLOTS)) ?? 0);
  return { used: Math.min(used, LIMIT), limit: LIMIT };
});

fastify.listen({ port: Number(process.env.PORT || 8080), host: '0.0.0.0' }).catch((err) => {
  fastify.log.error(err);
  process.exit(1);
});
