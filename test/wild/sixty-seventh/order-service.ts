import type { Knex } from 'knex';
import Redlock from 'redlock4';
import Redis from 'ioredis';

export interface OrderLine {
  sku: string;
  quantity: number;
}

export interface OrderServiceDeps {
  knex: Knex;
  redlock: Redlock;
}

export class OutOfStock extends Error {
  readonly status = 409;
  constructor(readonly sku: string, readonly available: number) {
    super(`only ${available} of ${sku} left`);
  }
}

export function redlockFromEnv(env = process.env): Redlock {
  const hosts = (env.LOCK_HOSTS ?? 'localhost').split(',');
  const redlock = new Redlock(
    hosts.map((host) => new Redis({ host, maxRetriesPerRequest: 1 })),
    { driftFactor: 0.01, retryCount: 15, retryDelay: 150, retryJitter: 100 },
  );
  redlock.on('clientError', (err: Error) => console.error('redlock node:', err.message));
  return redlock;
}

export class OrderService {
  private static readonly LOCK_TTL = 20_000;

  constructor(private readonly deps: OrderServiceDeps) {}

  /**
   * Places an order for one product. Stock is counted in application code (the
   * rules for bundles and safety stock do not fit into SQL), therefore orders
   * for the same product run one after the other.
   */
  async placeOrder(customerId: string, line: OrderLine): Promise<string> {
    const { knex } = this.deps;

    return knex.transaction(async (trx) => {
      // Three statements, one second each: far below the TTL of the lock.
      await trx.raw('SET LOCAL statement_timeout = 1000');

      return this.locked(`stock:${line.sku}`, async () => {
        const stock = await trx('stock').where({ sku: line.sku }).first('on_hand', 'safety');
        if (!stock) throw new OutOfStock(line.sku, 0);

        const available = this.sellable(stock.on_hand, stock.safety);
        if (available < line.quantity) throw new OutOfStock(line.sku, available);

        await trx('stock')
          .where({ sku: line.sku })
          .update({ on_hand: stock.on_hand - line.quantity });

        const [order] = await trx('orders')
          .insert({ customer_id: customerId, sku: line.sku, quantity: line.quantity })
          .returning('id');
        return order.id as string;
      });
    });
  }

  async available(sku: string): Promise<number> {
    const stock = await this.deps.knex('stock').where({ sku }).first('on_hand', 'safety');
    return stock ? this.sellable(stock.on_hand, stock.safety) : 0;
  }

  private sellable(onHand: number, safety: number): number {
    return Math.max(0, onHand - safety);
  }

  private async locked<T>(resource: string, fn: () => Promise<T>): Promise<T> {
    const lock = await this.deps.redlock.lock(resource, OrderService.LOCK_TTL);
    try {
      return await fn();
    } finally {
      await lock.unlock().catch((err: Error) => {
        // Expired or node down: it goes away after LOCK_TTL at the latest.
        console.warn(`unlock ${resource}: ${err.message}`);
      });
    }
  }
}
