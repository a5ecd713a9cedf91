import { randomUUID } from 'node:crypto';
import type { Request, Response } from 'express';
import type { createClient } from 'redis';
import { verifySignature } from './signature';
import type { PaymentsDb } from './db';
import type { Logger } from './logger';

type Redis = ReturnType<typeof createClient>;

const CLAIM_TTL_MS = 60_000;
const HANDLE_TIMEOUT_MS = 20_000;
const DONE_TTL_MS = 7 * 24 * 60 * 60 * 1000;
const DONE = 'done';

const FINISH = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0`;

const DROP = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

interface PaymentEvent {
  id: string;
  type: 'payment.captured' | 'payment.refunded';
  data: { paymentId: string; amount: number; currency: string };
}

export interface WebhookDeps {
  redis: Redis;
  db: PaymentsDb;
  logger: Logger;
  secret: string;
}

async function applyEvent(db: PaymentsDb, event: PaymentEvent): Promise<void> {
  await db.transaction({ timeoutMs: HANDLE_TIMEOUT_MS }, async (tx) => {
    // provider_events.id is unique: it remembers longer than Redis does.
    const fresh = await tx.query(
      'INSERT INTO provider_events (id, type) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING id',
      [event.id, event.type],
    );
    if (fresh.rowCount === 0) return;

    const sign = event.type === 'payment.refunded' ? -1 : 1;
    await tx.query(
      'INSERT INTO ledger (payment_id, amount, currency) VALUES ($1, $2, $3)',
      [event.data.paymentId, sign * event.data.amount, event.data.currency],
    );
  });
}

export function paymentWebhook({ redis, db, logger, secret }: WebhookDeps) {
  return async function handle(req: Request, res: Response): Promise<void> {
    if (!verifySignature(req.body as Buffer, req.header('x-signature'), secret)) {
      res.status(400).json({ error: 'bad signature' });
      return;
    }
    const event = JSON.parse((req.body as Buffer).toString('utf8')) as PaymentEvent;
    const key = `webhook:payment:${event.id}`;
    const claim = `claim:${randomUUID()}`;

    let claimed: boolean;
    try {
      claimed = (await redis.set(key, claim, { NX: true, PX: CLAIM_TTL_MS })) === 'OK';
      if (!claimed) {
        if ((await redis.get(key)) === DONE) {
          res.status(200).json({ status: 'duplicate' });
          return;
        }
      }
    } catch (err) {
      logger.error({ err, eventId: event.id }, 'could not claim webhook event');
      res.status(503).json({ error: 'try again' });
      return;
    }

    if (!claimed) {
      // Somebody is at it. The provider will ask again and then see how it ended.
      res.status(503).set('Retry-After', '30').json({ error: 'in progress' });
      return;
    }

    try {
      await applyEvent(db, event);
    } catch (err) {
      logger.error({ err, eventId: event.id }, 'webhook event failed');
      await redis
        .eval(DROP, { keys: [key], arguments: [claim] })
        .catch((dropErr) => logger.warn({ err: dropErr, key }, 'claim not dropped'));
      res.status(500).json({ error: 'failed' });
      return;
    }

    try {
      const kept = await redis.eval(FINISH, {
        keys: [key],
        arguments: [claim, DONE, String(DONE_TTL_MS)],
      });
      if (kept !== 1) logger.warn({ key }, 'claim had run out before the event was finished');
    } catch (err) {
      logger.warn({ err, key }, 'event not marked as done');
    }
    res.status(200).json({ status: 'ok' });
  };
}
