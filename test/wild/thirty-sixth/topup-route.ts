import Fastify from 'fastify';
import { Redis } from 'ioredis';
import { createHash, randomUUID } from 'node:crypto';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379', { commandTimeout: 2_500 });
const app = Fastify({ logger: true });

interface TopUp {
  card: string;
  cents: number;
}

interface Saved {
  print: string;
  status: number;
  body: unknown;
}

const SETTLE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
  return 1
end
return 0`;

const FORGET = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

const ONE_DAY = 86_400;

// The gateway credits the card itself and replays its answer for a known key.
async function credit(topUp: TopUp, key: string): Promise<{ status: number; body: unknown }> {
  const res = await fetch(`${process.env.GATEWAY_URL}/credits`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify(topUp),
    signal: AbortSignal.timeout(20_000),
  });
  if (!res.ok && res.status !== 402) throw new Error(`gateway answered ${res.status}`);
  return { status: res.status, body: await res.json() };
}

app.post<{ Body: TopUp }>('/topups', async (req, reply) => {
  const given = req.headers['idempotency-key'];
  if (typeof given !== 'string' || given.length < 16) {
    return reply.code(400).send({ error: 'idempotency-key header needed' });
  }
  const { card, cents } = req.body;
  const key = `${card}:${given}`;
  const print = createHash('sha256').update(JSON.stringify([card, cents])).digest('hex');
  const slot = `topup:${key}`;
  const mine = `~${randomUUID()}`;

  // NX together with GET needs redis 7
  const before = await redis.set(slot, mine, 'EX', 90, 'NX', 'GET');
  if (before !== null) {
    if (before.startsWith('~')) {
      return reply.code(409).header('retry-after', '3').send({ error: 'still working on it' });
    }
    const saved = JSON.parse(before) as Saved;
    if (saved.print !== print) return reply.code(422).send({ error: 'key was used for another top-up' });
    return reply.code(saved.status).send(saved.body);
  }

  try {
    const { status, body } = await credit({ card, cents }, key);
    const saved: Saved = { print, status, body };
    await redis.eval(SETTLE, 1, slot, mine, JSON.stringify(saved), ONE_DAY);
    return reply.code(status).send(body);
  } catch (err) {
    await redis.eval(FORGET, 1, slot, mine).catch(() => undefined);
    throw err;
  }
});

await app.listen({ port: Number(process.env.PORT ?? 3000), host: '0.0.0.0' });
