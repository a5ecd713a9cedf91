import Fastify from 'fastify';
import sensible from '@fastify/sensible';
import Redis from 'ioredis';
import knexFactory from 'knex';
import { nanoid } from 'nanoid';
import { z } from 'zod';
import { setTimeout as sleep } from 'node:timers/promises';

const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');

const knex = knexFactory({
  client: 'pg',
  connection: process.env.DATABASE_URL,
  acquireConnectionTimeout: 5_000,
  pool: {
    min: 2,
    max: 30,
    afterCreate: (conn: any, done: any) => conn.query('set statement_timeout = 4000', (err: Error) => done(err, conn)),
  },
});

const UNLOCK = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`;

export class LockTimeout extends Error {}

async function withLock<T>(key: string, fn: () => Promise<T>, ttlMs = 30_000, waitMs = 5_000): Promise<T> {
  const value = nanoid();
  const until = Date.now() + waitMs;
  while ((await redis.set(key, value, 'PX', ttlMs, 'NX')) !== 'OK') {
    if (Date.now() >= until) throw new LockTimeout(key);
    await sleep(30 + Math.floor(Math.random() * 70));
  }
  try {
    return await fn();
  } finally {
    await redis.eval(UNLOCK, 1, key, value).catch(() => undefined);
  }
}

const Params = z.object({ showId: z.string().uuid() });
const Body = z.object({
  customerId: z.string().uuid(),
  seats: z.array(z.string().regex(/^[A-Z]{1,2}\d{1,3}$/)).min(1).max(8),
});

const app = Fastify({ logger: true });
await app.register(sensible);

app.post('/shows/:showId/bookings', async (req, reply) => {
  const { showId } = Params.parse(req.params);
  const { customerId, seats } = Body.parse(req.body);

  try {
    const booking = await knex.transaction(async (trx) => {
      const customer = await trx('customers').where({ id: customerId }).first('id', 'blocked');
      if (!customer || customer.blocked) throw app.httpErrors.forbidden('customer cannot book');

      // nobody else may look at the free seats of this show until ours are taken
      return withLock(`show:${showId}:seats`, async () => {
        const show = await trx('shows').where({ id: showId }).first('id', 'price_cents', 'starts_at');
        if (!show || new Date(show.starts_at) < new Date()) throw app.httpErrors.notFound('show is over');

        const taken = await trx('booking_seats').where({ show_id: showId }).whereIn('seat', seats).pluck('seat');
        if (taken.length > 0) throw app.httpErrors.conflict(`already taken: ${taken.join(', ')}`);

        const [row] = await trx('bookings')
          .insert({ show_id: showId, customer_id: customerId, amount_cents: show.price_cents * seats.length })
          .returning(['id', 'amount_cents']);
        await trx('booking_seats').insert(seats.map((seat) => ({ booking_id: row.id, show_id: showId, seat })));
        return row;
      });
    });

    return reply.code(201).send({ id: booking.id, amountCents: booking.amount_cents, seats });
  } catch (err) {
    if (err instanceof LockTimeout) throw app.httpErrors.serviceUnavailable('many people are booking, try again');
    throw err;
  }
});

app.addHook('onClose', async () => {
  await knex.destroy();
  redis.disconnect();
});

await app.listen({ port: Number(process.env.PORT ?? 8080), host: '0.0.0.0' });
