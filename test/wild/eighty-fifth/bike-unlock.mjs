import Fastify from 'fastify';
import { createClient, WatchError } from 'redis';
import { randomUUID } from 'node:crypto';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (e) => console.error('redis', e.message));
await redis.connect();

const app = Fastify({ logger: true });

const MAX_RIDE_S = 12 * 3600;

// bike:<id>   hash   dock, battery, ride ('' while parked)
// ride:<id>   hash   bike, rider, startedAt
// rider:<id>  string ride id, while riding
app.post('/bikes/:bike/unlock', async (req, reply) => {
  const { bike } = req.params;
  const rider = req.headers['x-rider'];
  if (!rider) return reply.code(401).send({ error: 'log in first' });

  for (let attempt = 0; attempt < 3; attempt++) {
    await redis.watch([`bike:${bike}`, `rider:${rider}`]);

    const [state, riding] = await Promise.all([redis.hGetAll(`bike:${bike}`), redis.get(`rider:${rider}`)]);
    if (!state.dock || state.ride) {
      await redis.unwatch();
      return reply.code(409).send({ error: 'this bike is taken' });
    }
    if (riding) {
      await redis.unwatch();
      return reply.code(409).send({ error: 'one bike at a time' });
    }
    if (Number(state.battery) < 15) {
      await redis.unwatch();
      return reply.code(409).send({ error: 'battery too low' });
    }

    const ride = randomUUID();
    try {
      await redis
        .multi()
        .hSet(`bike:${bike}`, { ride, dock: '' })
        .hSet(`ride:${ride}`, { bike, rider, startedAt: Date.now(), from: state.dock })
        .set(`rider:${rider}`, ride, { EX: MAX_RIDE_S })
        .exec();
    } catch (err) {
      if (err instanceof WatchError) continue;
      throw err;
    }

    // the dock opens for the ride id; it asks us again what ride it belongs to
    const res = await fetch(`${process.env.DOCKS}/${state.dock}/open`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': ride },
      body: JSON.stringify({ ride }),
      signal: AbortSignal.timeout(4000),
    }).catch((err) => ({ ok: false, status: err.name }));
    if (!res.ok) req.log.warn({ ride, bike, status: res.status }, 'dock did not answer, sweeper will look');

    return { ride, opened: res.ok };
  }
  return reply.code(409).send({ error: 'somebody was faster' });
});

await app.listen({ port: Number(process.env.PORT ?? 3000), host: '0.0.0.0' });
