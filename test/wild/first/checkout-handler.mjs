import { randomUUID } from 'node:crypto';

const TTL_MS = 10_000;
const WORK_MS = 8_000;

const UNLOCK = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('DEL', KEYS[1])
  end
  return 0`;

const PLACE_ORDER = `
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
  end
  return redis.call('RPUSH', KEYS[2], ARGV[2])`;

/**
 * POST /carts/:id/checkout
 *
 * @param {{ redis: import('redis').RedisClientType, log?: Console }} deps a connected node-redis client
 */
export function createCheckoutHandler({ redis, log = console }) {
  return async function checkout(req, res) {
    const cart = `cart:${req.params.id}`;
    const lock = `${cart}:checkout-lock`;
    const token = randomUUID();
    const release = () => redis.eval(UNLOCK, { keys: [lock], arguments: [token] });

    const deadline = performance.now() + WORK_MS;
    let locked;
    try {
      locked = await redis.set(lock, token, { NX: true, PX: TTL_MS });
    } catch (err) {
      log.error('checkout: lock', err.message);
      release().catch(() => {});
      return res.status(503).json({ error: 'try again' });
    }
    if (locked === null) return res.status(409).json({ error: 'checkout in progress' });

    try {
      const items = await redis.hGetAll(cart);
      let total = 0;
      for (const [sku, quantity] of Object.entries(items)) {
        const price = Number(await redis.hGet('prices', sku));
        total += price * Number(quantity);
      }
      if (performance.now() > deadline) return res.status(503).json({ error: 'try again' });
      // Whatever happens to us meanwhile: the order is placed only if the cart is still locked by this request.
      const placed = await redis.eval(PLACE_ORDER, {
        keys: [lock, 'orders'],
        arguments: [token, JSON.stringify({ cart, total })],
      });
      if (!placed) return res.status(503).json({ error: 'try again' });
      return res.status(201).json({ total });
    } catch (err) {
      log.error('checkout', err.message);
      return res.status(500).json({ error: 'failed' });
    } finally {
      await release().catch((err) => log.error('checkout: unlock', err.message));
    }
  };
}
