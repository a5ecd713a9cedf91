import { createHash, randomUUID } from 'node:crypto';
import express, { type NextFunction, type Request, type Response } from 'express';
import Redis from 'ioredis';
import Stripe from 'stripe';
import { requireTenant } from './auth';

const redis = new Redis(process.env.REDIS_URL!, {
  maxRetriesPerRequest: 1,
  commandTimeout: 1_000,
  autoResendUnfulfilledCommands: false,
});
redis.on('error', (err) => console.error('[redis]', err.message));
const stripe = new Stripe(process.env.STRIPE_KEY!, { timeout: 20_000, maxNetworkRetries: 0 });

const PENDING_MS = 60_000;
const KEEP_MS = 24 * 3600_000;

const BEGIN = `
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.call('HMGET', KEYS[1], 'state', 'print', 'status', 'body')
end
redis.call('HSET', KEYS[1], 'state', 'pending', 'token', ARGV[1], 'print', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'new'}`;

const FINISH = `
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'state', 'done', 'status', ARGV[2], 'body', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1`;

const ABANDON = `
if redis.call('HGET', KEYS[1], 'token') == ARGV[1] and redis.call('HGET', KEYS[1], 'state') == 'pending' then
  return redis.call('DEL', KEYS[1])
end
return 0`;

type Reply = { status: number; body: unknown };
type Work = (req: Request, providerKey: string) => Promise<Reply>;

/**
 * Idempotency-Key handling: the first request does the work, repeats get the
 * stored answer, parallel repeats get a 409.
 *
 * The pending mark lapses after a minute so that a crashed server does not block
 * the customer. `providerKey` is the same for every attempt and has to be handed
 * to the payment provider, which folds a second attempt into the first.
 */
export function idempotent(work: Work) {
  return async (req: Request, res: Response, next: NextFunction) => {
    const header = req.get('idempotency-key');
    if (!header || header.length > 200) {
      res.status(400).json({ error: 'Idempotency-Key header required' });
      return;
    }
    const tenant = res.locals.tenantId as string;
    const providerKey = createHash('sha256').update(`${tenant}\n${header}`).digest('hex');
    const print = createHash('sha256').update(JSON.stringify(req.body)).digest('hex');
    const key = `idem:${providerKey}`;
    const token = randomUUID();

    let begun: (string | null)[];
    try {
      begun = (await redis.eval(BEGIN, 1, key, token, print, PENDING_MS)) as (string | null)[];
    } catch {
      res.status(503).set('retry-after', '2').json({ error: 'try again' });
      return;
    }

    if (begun[0] !== 'new') {
      const [state, seenPrint, status, body] = begun;
      if (seenPrint !== print) res.status(422).json({ error: 'key was used for another request' });
      else if (state === 'pending') res.status(409).set('retry-after', '2').json({ error: 'in progress' });
      else res.status(Number(status)).type('json').send(body);
      return;
    }

    let reply: Reply;
    try {
      reply = await work(req, providerKey);
    } catch (err) {
      await redis.eval(ABANDON, 1, key, token).catch(() => {});
      next(err);
      return;
    }

    const body = JSON.stringify(reply.body);
    try {
      await redis.eval(FINISH, 1, key, token, reply.status, body, KEEP_MS);
    } catch (err) {
      console.error('could not store the answer for %s', key, err);
    }
    res.status(reply.status).type('json').send(body);
  };
}

export const payments = express.Router();

payments.post(
  '/payments',
  requireTenant,
  express.json(),
  idempotent(async (req, providerKey) => {
    const { amount, currency, paymentMethod } = req.body;
    const intent = await stripe.paymentIntents.create(
      { amount, currency, payment_method: paymentMethod, confirm: true },
      { idempotencyKey: providerKey },
    );
    return { status: 201, body: { id: intent.id, status: intent.status } };
  }),
);
