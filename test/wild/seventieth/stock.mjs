// Optimistic locking for stock levels, node-redis.
//
//   const stock = await createStock(process.env.REDIS_URL)
//   app.post('/orders', async (req, res) => {
//     const left = await stock.take(req.body.sku, req.body.qty)
//     ...
//   })
import { createClient, WatchError } from 'redis';

export class OutOfStock extends Error {
  constructor(sku) {
    super(`${sku}: not enough in stock`);
    this.name = 'OutOfStock';
  }
}

export async function createStock(url = 'redis://127.0.0.1:6379') {
  const client = createClient({ url });
  client.on('error', (err) => console.error('redis', err.message));
  await client.connect();

  async function change(sku, fn, attempts = 25) {
    const key = `stock:${sku}`;
    for (let i = 0; i < attempts; i++) {
      await client.watch(key);

      let next;
      try {
        const raw = await client.get(key);
        const current = raw === null ? { level: 0, moves: 0 } : JSON.parse(raw);
        next = fn(current);
      } catch (err) {
        await client.unwatch();
        throw err;
      }

      try {
        await client.multi().set(key, JSON.stringify(next)).exec();
        return next;
      } catch (err) {
        if (!(err instanceof WatchError)) throw err;
        // somebody changed it in the meantime, take it from the top
        await new Promise((r) => setTimeout(r, Math.random() * 10 * (i + 1)));
      }
    }
    throw new Error(`${sku}: too much contention`);
  }

  return {
    async take(sku, qty) {
      const { level } = await change(sku, (s) => {
        if (s.level < qty) throw new OutOfStock(sku);
        return { level: s.level - qty, moves: s.moves + 1 };
      });
      return level;
    },

    async put(sku, qty) {
      const { level } = await change(sku, (s) => ({ level: s.level + qty, moves: s.moves + 1 }));
      return level;
    },

    close: () => client.quit(),
  };
}
