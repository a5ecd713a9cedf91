import { randomUUID } from 'node:crypto';
import fp from 'fastify-plugin';
import type { FastifyInstance } from 'fastify';
import Redis from 'ioredis';
import { addMinutes } from 'date-fns';
import { z } from 'zod';

const Line = z.object({ sku: z.string().min(1), quantity: z.number().int().min(1).max(500) });

interface StockRecord {
  onHand: number;
  reserved: number;
  reservations: Record<string, { quantity: number; expiresAt: string }>;
}

export class OutOfStockError extends Error {
  readonly statusCode = 409;
}
export class StockContentionError extends Error {
  readonly statusCode = 503;
}

const MAX_ATTEMPTS = 12;

/** Stock records are JSON documents, changed with optimistic locking and repeated on conflict. */
export class StockRepository {
  constructor(private readonly redis: Redis) {}

  private key(sku: string) {
    return `stock:${sku}`;
  }

  async update<T>(sku: string, change: (record: StockRecord) => T): Promise<T> {
    const key = this.key(sku);
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      await this.redis.watch(key);
      let result: T;
      let next: string;
      try {
        const raw = await this.redis.get(key);
        const record: StockRecord = raw ? JSON.parse(raw) : { onHand: 0, reserved: 0, reservations: {} };
        this.dropExpired(record);
        result = change(record);
        next = JSON.stringify(record);
      } catch (err) {
        await this.redis.unwatch();
        throw err;
      }
      const replies = await this.redis.multi().set(key, next).publish('stock:changed', sku).exec();
      if (replies) {
        const failed = replies.find(([err]) => err);
        if (failed) throw failed[0];
        return result;
      }
      await new Promise((r) => setTimeout(r, Math.random() * 15 * attempt));
    }
    throw new StockContentionError(`stock of ${sku} is changing too fast`);
  }

  private dropExpired(record: StockRecord) {
    const now = new Date().toISOString();
    for (const [id, r] of Object.entries(record.reservations)) {
      if (r.expiresAt < now) {
        record.reserved -= r.quantity;
        delete record.reservations[id];
      }
    }
  }

  reserve(sku: string, quantity: number, id = randomUUID()) {
    return this.update(sku, (record) => {
      if (record.reservations[id]) return id;
      if (record.onHand - record.reserved < quantity) throw new OutOfStockError(`only ${record.onHand - record.reserved} of ${sku} left`);
      record.reserved += quantity;
      record.reservations[id] = { quantity, expiresAt: addMinutes(new Date(), 15).toISOString() };
      return id;
    });
  }

  commit(sku: string, id: string) {
    return this.update(sku, (record) => {
      const r = record.reservations[id];
      if (!r) return false;
      record.onHand -= r.quantity;
      record.reserved -= r.quantity;
      delete record.reservations[id];
      return true;
    });
  }

  restock(sku: string, quantity: number) {
    return this.update(sku, (record) => (record.onHand += quantity));
  }
}

export default fp(async function stockPlugin(app: FastifyInstance) {
  const redis = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
  redis.on('error', (err) => app.log.warn({ err }, 'stock redis'));
  const stock = new StockRepository(redis);

  app.post('/reservations', async (req, reply) => {
    const line = Line.parse(req.body);
    const id = await stock.reserve(line.sku, line.quantity);
    return reply.code(201).send({ id });
  });

  app.post<{ Params: { sku: string; id: string } }>('/stock/:sku/reservations/:id/commit', async (req, reply) => {
    const done = await stock.commit(req.params.sku, req.params.id);
    return reply.code(done ? 204 : 404).send();
  });

  app.addHook('onClose', async () => {
    await redis.quit();
  });
});
