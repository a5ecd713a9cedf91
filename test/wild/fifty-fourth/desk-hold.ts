import Fastify from 'fastify';
import Redis from 'ioredis';
import { createHash } from 'node:crypto';
import { nanoid } from 'nanoid';
import { Pool } from 'pg';
import { z } from 'zod';

const app = Fastify({ logger: true });
const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');
const pool = new Pool({ connectionString: process.env.DATABASE_URL, statement_timeout: 5_000 });

const HOLD_MS = 10 * 60_000;
const CONFIRM_MS = 2 * 60_000;

class Script {
  private readonly sha: string;

  constructor(private readonly body: string) {
    this.sha = createHash('sha1').update(body).digest('hex');
  }

  async run(key: string, ...args: (string | number)[]): Promise<number> {
    try {
      return Number(await redis.evalsha(this.sha, 1, key, ...args));
    } catch (err) {
      if (!(err as Error).message.startsWith('NOSCRIPT')) throw err;
      return Number(await redis.eval(this.body, 1, key, ...args));
    }
  }
}

// a hold that has more time left than asked for keeps what it has
const atLeast = new Script(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1`);

const drop = new Script(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`);

const Name = z.string().regex(/^[\w-]{1,20}$/);
const Desk = z.object({ floor: Name, desk: Name, day: z.string().date() });
const Held = Desk.extend({ hold: z.string().length(21) });

const keyOf = (d: z.infer<typeof Desk>) => `hold:${d.floor}:${d.desk}:${d.day}`;

app.post('/holds', async (req, reply) => {
  const desk = Desk.parse(req.body);
  const hold = nanoid();
  if ((await redis.set(keyOf(desk), hold, 'PX', HOLD_MS, 'NX')) !== 'OK') {
    return reply.code(409).send({ error: 'somebody is looking at this desk' });
  }
  let kept = false;
  try {
    const { rowCount } = await pool.query(
      'select 1 from desk_bookings where floor = $1 and desk = $2 and day = $3',
      [desk.floor, desk.desk, desk.day],
    );
    if (rowCount) return reply.code(409).send({ error: 'desk is booked' });
    kept = true;
    return reply.code(201).send({ hold, expiresInMs: HOLD_MS });
  } finally {
    if (!kept) await drop.run(keyOf(desk), hold).catch((err) => req.log.warn({ err }, 'hold left to expire'));
  }
});

app.post('/holds/confirm', async (req, reply) => {
  const held = Held.parse(req.body);
  const person = z.string().parse(req.headers['x-person']);
  if ((await atLeast.run(keyOf(held), held.hold, CONFIRM_MS)) !== 1) {
    return reply.code(410).send({ error: 'hold has run out' });
  }
  // If this throws, the person may press the button again: the hold stays with
  // them and goes away by itself.
  const { rowCount } = await pool.query(
    `insert into desk_bookings (floor, desk, day, person) values ($1, $2, $3, $4)
     on conflict (floor, desk, day) do nothing`,
    [held.floor, held.desk, held.day, person],
  );
  if (rowCount !== 1) return reply.code(409).send({ error: 'desk is booked' });
  await drop.run(keyOf(held), held.hold).catch((err) => req.log.warn({ err }, 'hold left to expire'));
  return reply.code(201).send({ floor: held.floor, desk: held.desk, day: held.day });
});

app.delete('/holds', async (req, reply) => {
  const held = Held.parse(req.body);
  await drop.run(keyOf(held), held.hold);
  return reply.code(204).send();
});

await app.listen({ port: Number(process.env.PORT ?? 8080), host: '0.0.0.0' });
