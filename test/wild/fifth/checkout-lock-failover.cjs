'use strict';

const Redis = require('ioredis');
const { randomUUID } = require('node:crypto');

/*
 * Basket lock for the checkout. Two standalone redis boxes (no replication, one per
 * availability zone), the second is there for when the first has maintenance.
 */
const hosts = [process.env.REDIS_PRIMARY_HOST || 'redis-a', process.env.REDIS_STANDBY_HOST || 'redis-b'];

const clients = hosts.map((host) => {
  const c = new Redis({ host, port: 6379, commandTimeout: 500, maxRetriesPerRequest: 0, enableOfflineQueue: false });
  c.on('error', (err) => console.warn(`[basket-lock] ${host}: ${err.message}`));
  return c;
});

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

const TTL = 20000;
const RESERVE = 2000;

class BasketBusyError extends Error {
  constructor(basketId) {
    super(`basket ${basketId} is being checked out`);
    this.status = 409;
  }
}

async function release(client, key, token) {
  try {
    await client.eval(UNLOCK, 1, key, token);
  } catch (err) {
    console.warn(`[basket-lock] release ${key}: ${err.message}`);
  }
}

async function acquire(basketId) {
  const key = `checkout:basket:${basketId}`;
  const token = randomUUID();
  let lastError;

  for (const client of clients) {
    const started = performance.now();
    try {
      const reply = await client.set(key, token, 'PX', TTL, 'NX');
      if (reply !== 'OK') throw new BasketBusyError(basketId);
      const endsAt = started + TTL - RESERVE;
      return {
        msLeft: () => endsAt - performance.now(),
        release: () => release(client, key, token),
      };
    } catch (err) {
      if (err instanceof BasketBusyError) throw err;
      lastError = err;
      await release(client, key, token);
    }
  }
  throw lastError;
}

const ORDER_MS = 5000;

/** express handler: POST /baskets/:id/checkout */
function checkoutHandler({ baskets, orders }) {
  return async function checkout(req, res, next) {
    let lock;
    try {
      lock = await acquire(req.params.id);
      const basket = await baskets.load(req.params.id, { timeoutMs: 2000 });
      if (basket.orderId) return res.json({ orderId: basket.orderId });

      if (lock.msLeft() < ORDER_MS) return res.status(503).json({ error: 'slow, try again' });
      // order row and basket.orderId in one transaction, cancelled after timeoutMs
      const orderId = await orders.createFrom(basket, { timeoutMs: ORDER_MS });
      return res.status(201).json({ orderId });
    } catch (err) {
      return next(err);
    } finally {
      if (lock) await lock.release();
    }
  };
}

module.exports = { checkoutHandler, acquire, BasketBusyError };
