'use strict';

const { randomUUID } = require('node:crypto');
const { performance } = require('node:perf_hooks');
const { createClient } = require('redis');

const client = createClient({ url: process.env.REDIS_URL });
client.on('error', (err) => console.error('redis', err.message));
const ready = client.connect();

const TTL_MS = 60_000;
const BUDGET_MS = 20_000; // what a handler may use
const RELEASE =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/**
 * app.post('/accounts/:id/recalculate',
 *   exclusive((req) => `account:${req.params.id}`),
 *   recalculate(store, pricing));
 */
function exclusive(keyOf) {
  return async function exclusiveMiddleware(req, res, next) {
    const key = `lock:${keyOf(req)}`;
    const token = randomUUID();
    const asked = performance.now();

    let reply;
    try {
      await ready;
      reply = await client.set(key, token, { NX: true, PX: TTL_MS });
    } catch (err) {
      return next(err);
    }
    if (reply !== 'OK') {
      return res.status(409).json({ error: 'already being recalculated' });
    }

    let released = false;
    const release = () => {
      if (released) return;
      released = true;
      client
        .eval(RELEASE, { keys: [key], arguments: [token] })
        .catch((err) => console.warn('release of', key, 'failed, TTL will do it:', err.message));
    };
    // whichever comes first; a handler that throws ends up in express' error answer, so it is covered too
    res.once('finish', release);
    res.once('close', release);

    if (performance.now() - asked > 5_000) {
      return res.status(503).json({ error: 'try again later' });
    }
    req.deadline = AbortSignal.timeout(BUDGET_MS);
    return next();
  };
}

function recalculate(store, pricing) {
  return async function recalculateHandler(req, res, next) {
    const signal = req.deadline;
    try {
      const account = await store.load(req.params.id, { signal });
      if (!account) return res.status(404).json({ error: 'no such account' });

      let total = 0;
      for (const line of account.lines) {
        const quote = await pricing.quote(line.product, line.quantity, { signal });
        total += quote.cents;
      }

      signal.throwIfAborted();
      await store.save({ ...account, total, recalculatedAt: new Date().toISOString() });
      return res.json({ id: account.id, total });
    } catch (err) {
      return next(err);
    }
  };
}

module.exports = { exclusive, recalculate };
