import { randomUUID } from 'node:crypto';
import type { Request, Response, NextFunction } from 'express';
import type Redis from 'ioredis';
import { CardDeclined, type PaymentProvider } from './provider';

const DAY = 24 * 60 * 60 * 1000;

/** Replaces our pending marker by the final response. */
const FINISH = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`;

const FORGET = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])`;

type Claim =
  | { kind: 'ours'; marker: string }
  | { kind: 'pending' }
  | { kind: 'done'; status: number; body: unknown };

/**
 * Idempotency keys as described in our public API docs: a key is valid for 24
 * hours, the first request with it is executed, later ones get the stored
 * response (or 409 as long as there is none).
 */
export class IdempotencyStore {
  constructor(private readonly redis: Redis, private readonly log: Pick<Console, 'warn'> = console) {}

  async claim(key: string): Promise<Claim> {
    const marker = `pending:${randomUUID()}`;
    try {
      const ok = await this.redis.set(key, marker, 'PX', DAY, 'NX');
      if (ok === 'OK') return { kind: 'ours', marker };

      const current = await this.redis.get(key);
      if (current === null || current.startsWith('pending:')) return { kind: 'pending' };
      const { status, body } = JSON.parse(current);
      return { kind: 'done', status, body };
    } catch (err) {
      this.log.warn('idempotency store unavailable', err);
      return { kind: 'ours', marker };
    }
  }

  async finish(key: string, marker: string, status: number, body: unknown): Promise<void> {
    try {
      await this.redis.eval(FINISH, 1, key, marker, JSON.stringify({ status, body }), DAY);
    } catch (err) {
      // The marker stays for the rest of the day, repeats get a 409.
      this.log.warn('could not store response', err);
    }
  }

  async forget(key: string, marker: string): Promise<void> {
    try {
      await this.redis.eval(FORGET, 1, key, marker);
    } catch (err) {
      this.log.warn('could not remove marker', err);
    }
  }
}

export function postPayment(store: IdempotencyStore, provider: PaymentProvider) {
  return async (req: Request, res: Response, next: NextFunction) => {
    const idempotencyKey = req.get('Idempotency-Key');
    if (!idempotencyKey) {
      res.status(400).json({ error: 'Idempotency-Key is required' });
      return;
    }
    const key = `idem:${req.account.id}:payments:${idempotencyKey}`;

    try {
      const claim = await store.claim(key);
      if (claim.kind === 'pending') {
        res.status(409).json({ error: 'a request with this key is in progress' });
        return;
      }
      if (claim.kind === 'done') {
        res.status(claim.status).json(claim.body);
        return;
      }

      try {
        const charge = await provider.charge({
          card: req.body.card,
          amount: req.body.amount,
          currency: req.body.currency,
        });
        const body = { id: charge.id, status: charge.status };
        await store.finish(key, claim.marker, 201, body);
        res.status(201).json(body);
      } catch (err) {
        if (err instanceof CardDeclined) {
          // Nothing was charged: the customer may try another card with the same key.
          await store.forget(key, claim.marker);
          res.status(402).json({ error: err.message });
          return;
        }
        // Outcome unknown: keep the marker, support looks at it.
        throw err;
      }
    } catch (err) {
      next(err);
    }
  };
}
