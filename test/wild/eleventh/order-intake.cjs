'use strict';

const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const LOCK_MS = 20_000;
const QUOTE_MS = 8_000;
const WAIT_MS = 10_000;
const KEEP_RESULT_S = 24 * 60 * 60;

// The order and the answer for repeats are stored together, while the lock is ours.
const PLACE = `
if redis.call("get", KEYS[1]) ~= ARGV[1] then return 0 end
redis.call("hset", KEYS[2], ARGV[2], ARGV[3])
redis.call("set", KEYS[3], ARGV[3], "EX", ARGV[4])
return 1
`;

const UNLOCK = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0
`;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function waitForLock(redis, key) {
  const token = randomUUID();
  const giveUpAt = performance.now() + WAIT_MS;
  do {
    const sentAt = performance.now();
    const reply = await redis.set(key, token, 'PX', LOCK_MS, 'NX');
    if (reply === 'OK') return { token, sentAt };
    await sleep(100 + Math.floor(Math.random() * 100));
  } while (performance.now() < giveUpAt);
  return null;
}

/**
 * POST /orders. The mobile app repeats requests when the network is bad, always with the
 * same Idempotency-Key; an order must be created once and the repeat gets the same answer.
 *
 * quote(body, { signal }) asks the price service and rejects when the signal aborts.
 */
function orderIntake({ quote, redis = new Redis(process.env.REDIS_URL) }) {
  return async function handler(req, res) {
    const id = req.headers['idempotency-key'];
    if (!id) return res.status(400).json({ error: 'Idempotency-Key header missing' });

    const resultKey = `order:${id}:result`;
    const lockKey = `order:${id}:lock`;

    try {
      const previous = await redis.get(resultKey);
      if (previous) return res.status(200).json(JSON.parse(previous));

      const lock = await waitForLock(redis, lockKey);
      if (!lock) return res.status(409).json({ error: 'request is still being processed' });

      try {
        if (performance.now() - lock.sentAt > QUOTE_MS) throw new Error('redis too slow');
        const { lines, total } = await quote(req.body, { signal: AbortSignal.timeout(QUOTE_MS) });
        const order = { orderNo: randomUUID(), customer: req.body.customer, lines, total };

        const placed = await redis.eval(
          PLACE, 3, lockKey, 'orders', resultKey,
          lock.token, order.orderNo, JSON.stringify(order), KEEP_RESULT_S,
        );
        if (placed !== 1) throw new Error('lock expired, order not placed');
        return res.status(201).json(order);
      } finally {
        await redis.eval(UNLOCK, 1, lockKey, lock.token).catch((err) => {
          console.warn('order lock', id, err.message);
        });
      }
    } catch (err) {
      console.error('order intake', id, err);
      return res.status(503).json({ error: 'please try again' });
    }
  };
}

module.exports = { orderIntake };
