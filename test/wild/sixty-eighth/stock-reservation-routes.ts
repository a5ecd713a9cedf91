import { randomUUID } from 'node:crypto';
import { Router, type NextFunction, type Request, type RequestHandler, type Response } from 'express';
import type { createClient } from 'redis';

type RedisClient = ReturnType<typeof createClient>;

export interface StockRepository {
  available(sku: string): Promise<number>;
  /** Writes the reservation and the new quantity in one transaction. */
  applyReservation(r: { id: string; sku: string; quantity: number; cartId: string; newAvailable: number }): Promise<void>;
  rejectReservation(r: { id: string; sku: string; reason: string }): Promise<void>;
}

export interface Logger {
  info(msg: string, ctx?: object): void;
  warn(msg: string, ctx?: object): void;
  error(msg: string, ctx?: object): void;
}

const TTL_MS = 10_000;

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

const EXTEND = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0`;

/** Holds the lock of the request's SKU for as long as the request is being served. */
export function lockBySku(redis: RedisClient, log: Logger): RequestHandler {
  return async (req: Request, res: Response, next: NextFunction) => {
    const key = `stock:${req.params.sku}`;
    const token = randomUUID();
    const lost = new AbortController();
    let heldUntil = performance.now() + TTL_MS;

    try {
      const reply = await redis.set(key, token, { NX: true, PX: TTL_MS });
      if (reply !== 'OK') {
        res.status(423).set('Retry-After', '1').json({ error: 'sku_busy' });
        return;
      }
    } catch (err) {
      next(err);
      return;
    }

    const dog = setInterval(async () => {
      const askedAt = performance.now();
      try {
        const extended = await redis.eval(EXTEND, { keys: [key], arguments: [token, String(TTL_MS)] });
        if (Number(extended) === 1) {
          heldUntil = askedAt + TTL_MS;
        } else {
          lost.abort(new Error(`${key} lost`));
        }
      } catch (err) {
        log.warn('stock lock not extended', { key, err });
        if (performance.now() > heldUntil - TTL_MS / 3) {
          lost.abort(new Error(`${key} lost`));
        }
      }
    }, TTL_MS / 5);

    let released = false;
    const release = () => {
      if (released) return;
      released = true;
      clearInterval(dog);
      redis
        .eval(RELEASE, { keys: [key], arguments: [token] })
        .catch((err) => log.warn('stock lock not released', { key, err }));
    };
    res.once('finish', release);
    res.once('close', release);

    res.locals.lockSignal = lost.signal;
    next();
  };
}

export function stockReservationRoutes(deps: { redis: RedisClient; stock: StockRepository; log: Logger }): Router {
  const { redis, stock, log } = deps;
  const router = Router();

  router.post('/skus/:sku/reservations', lockBySku(redis, log), async (req, res) => {
    const { sku } = req.params;
    const quantity = Number(req.body?.quantity);
    const cartId = String(req.body?.cartId ?? '');
    if (!Number.isInteger(quantity) || quantity < 1 || !cartId) {
      res.status(400).json({ error: 'quantity and cartId are required' });
      return;
    }

    const id = randomUUID();
    const signal: AbortSignal = res.locals.lockSignal;

    // The warehouse database takes its time; the shop polls GET /reservations/:id.
    res.status(202).location(`/reservations/${id}`).json({ id, state: 'pending' });

    try {
      const available = await stock.available(sku);
      if (available < quantity) {
        await stock.rejectReservation({ id, sku, reason: 'out_of_stock' });
        return;
      }
      signal.throwIfAborted();
      await stock.applyReservation({ id, sku, quantity, cartId, newAvailable: available - quantity });
      log.info('reserved', { id, sku, quantity });
    } catch (err) {
      log.error('reservation failed', { id, sku, err });
      await stock.rejectReservation({ id, sku, reason: 'error' }).catch(() => undefined);
    }
  });

  return router;
}
