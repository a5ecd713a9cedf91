import { createClientPool } from 'redis';
import { randomUUID } from 'node:crypto';
import Fastify from 'fastify';

const PRINTER = process.env.PRINTER_URL;
const AGAIN_AFTER = 900; // s, the belt has moved on by then

const redis = createClientPool({ url: process.env.REDIS_URL });
redis.on('error', (e) => console.error('redis', e.message));
await redis.connect();

const UNDO = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

// scale and both conveyor cameras report every crate, only one of them may print
async function claim(crate, me) {
  const key = `label:${crate}`;
  const [fresh] = await redis.multi().setNX(key, me).expire(key, AGAIN_AFTER, 'NX').exec();
  return fresh;
}

async function print(crate, kilos, species) {
  const res = await fetch(`${PRINTER}/jobs`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ template: 'crate-v3', crate, kilos, species }),
    signal: AbortSignal.timeout(10_000),
  });
  // 4xx/503: the printer did not take the job
  if (res.status === 503 || (res.status >= 400 && res.status < 500)) return false;
  if (!res.ok) throw new Error(`printer ${res.status}`);
  return true;
}

const app = Fastify({ logger: true });

app.post('/crates/:crate/seen', async (req, reply) => {
  const { crate } = req.params;
  const { kilos, species } = req.body ?? {};
  if (!/^[A-Z]{2}\d{6}$/.test(crate) || !(kilos > 0)) return reply.code(400).send({ error: 'bad crate' });

  const me = randomUUID();
  const claimed = await claim(crate, me);
  if (claimed === false) return { printed: false };

  const printed = await print(crate, kilos, species);
  if (!printed) {
    await redis.eval(UNDO, { keys: [`label:${crate}`], arguments: [me] });
    return reply.code(503).send({ error: 'printer refused' });
  }
  return { printed };
});

process.once('SIGTERM', async () => {
  await app.close();
  await redis.close();
});

await app.listen({ port: Number(process.env.PORT ?? 3000), host: '0.0.0.0' });
