import { createClient } from 'redis';

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('ticket-middleware', err));
const ready = client.connect();

/**
 * Koa middleware. One request for an event at a time may reserve seats.
 *
 *   router.post('/events/:eventId/seats', ticketLock({ ttl: 10 }), reserveSeats)
 */
export function ticketLock({ ttl = 10 } = {}) {
  return async (ctx, next) => {
    await ready;
    const key = `tickets:${ctx.params.eventId}`;
    try {
      const acquired = await client.set(key, ctx.state.requestId ?? 'anonymous', { NX: true, EX: ttl });
      if (!acquired) {
        ctx.status = 423;
        ctx.body = { error: 'seats are being reserved, try again' };
        return;
      }
      await next();
    } finally {
      await client.del(key);
    }
  };
}

export default ticketLock;
