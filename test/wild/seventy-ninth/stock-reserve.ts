import { setTimeout as sleep } from 'node:timers/promises';
import { createClientPool, WatchError } from 'redis';

const pool = createClientPool({ url: process.env.REDIS_URL }, { minimum: 2, maximum: 20 });
pool.on('error', (err: Error) => console.error('stock pool', err));

let ready: Promise<unknown> | undefined;
function connect() {
  ready ??= pool.connect().catch((err: unknown) => {
    ready = undefined;
    throw err;
  });
  return ready;
}

export type ReserveResult = 'reserved' | 'duplicate' | 'short';

export interface Line {
  sku: string;
  qty: number;
}

const MAX_TRIES = 12;

export async function reserve(orderId: string, line: Line): Promise<ReserveResult> {
  if (!Number.isInteger(line.qty) || line.qty <= 0) throw new RangeError('qty must be a positive integer');
  await connect();

  const stockKey = `{sku:${line.sku}}:on-hand`;
  const ordersKey = `{sku:${line.sku}}:orders`;

  for (let attempt = 1; attempt <= MAX_TRIES; attempt++) {
    try {
      return await pool.execute(async (client): Promise<ReserveResult> => {
        await client.watch([stockKey, ordersKey]);

        const known = await client.hGet(ordersKey, orderId);
        if (known) {
          await client.unwatch();
          return 'duplicate';
        }

        const onHand = Number((await client.get(stockKey)) ?? 0);
        if (onHand < line.qty) {
          await client.unwatch();
          return 'short';
        }

        await client
          .multi()
          .set(stockKey, String(onHand - line.qty))
          .hSet(ordersKey, orderId, String(line.qty))
          .exec();
        return 'reserved';
      });
    } catch (err) {
      if (!(err instanceof WatchError)) throw err;
      await sleep(Math.random() * 15 * attempt);
    }
  }
  throw new Error(`too much contention on ${line.sku}`);
}
