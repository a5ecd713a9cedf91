import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Redis } from 'ioredis';

interface Deps {
  db: { query(sql: string, params: unknown[]): Promise<{ rowCount: number }> };
  secret: string;
  redisUrl?: string;
}

interface PaymentEvent {
  id: string;
  type: string;
  orderId: string;
  cents: number;
}

const BUSY_MS = 60_000;
const DONE_SECONDS = 3 * 24 * 3600;

const BEGIN = `
local state = redis.call('GET', KEYS[1])
if state == 'done' then return 'done' end
if state then return 'busy' end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'begun'`;

const FINISH = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], 'done', 'EX', ARGV[2])
return 1`;

const CANCEL = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`;

export function paymentWebhook({ db, secret, redisUrl = process.env.REDIS_URL! }: Deps) {
  const redis = new Redis(redisUrl, { commandTimeout: 1_500, maxRetriesPerRequest: 2 });
  redis.on('error', (err) => console.error('redis', err.message));

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const c of req) chunks.push(c as Buffer);
    const body = Buffer.concat(chunks);

    const expected = createHmac('sha256', secret).update(body).digest();
    const given = Buffer.from(String(req.headers['x-signature'] ?? ''), 'hex');
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return reply(res, 401);

    const event = JSON.parse(body.toString('utf8')) as PaymentEvent;
    if (event.type !== 'payment.captured') return reply(res, 204);

    const key = `webhook:payment:${event.id}`;
    const token = randomUUID();
    const state = await redis.eval(BEGIN, 1, key, token, BUSY_MS);
    if (state === 'done') return reply(res, 200);
    if (state === 'busy') {
      res.setHeader('retry-after', '30');
      return reply(res, 409);
    }

    try {
      // payment_events.order_id is a foreign key, an unknown order fails the statement.
      await db.query(
        `WITH fresh AS (
           INSERT INTO payment_events (id, order_id, cents) VALUES ($1, $2, $3)
           ON CONFLICT (id) DO NOTHING
           RETURNING order_id, cents
         )
         UPDATE orders SET paid_cents = paid_cents + fresh.cents
           FROM fresh WHERE orders.id = fresh.order_id`,
        [event.id, event.orderId, event.cents],
      );
    } catch (err) {
      await redis.eval(CANCEL, 1, key, token).catch((e) => console.warn('cancel of %s failed', key, e));
      throw err;
    }

    await redis.eval(FINISH, 1, key, token, DONE_SECONDS).catch((e) => console.warn('finish of %s failed', key, e));
    reply(res, 200);
  }

  return (req: IncomingMessage, res: ServerResponse): void => {
    handle(req, res).catch((err) => {
      console.error('payment webhook', err);
      if (!res.headersSent) reply(res, 503);
      else res.destroy();
    });
  };
}

function reply(res: ServerResponse, status: number): void {
  res.statusCode = status;
  res.end();
}
