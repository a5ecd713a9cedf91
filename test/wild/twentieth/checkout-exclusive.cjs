'use strict';

const { randomUUID } = require('node:crypto');
const { Redis } = require('iovalkey');

const valkey = new Redis(process.env.REDIS_URL || 'redis://127.0.0.1:6379', { lazyConnect: true });

const TTL_MS = 10000;
const MARGIN_MS = 200;

const UNLOCK = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
else
  return 0
end`;

function unlock(key, token) {
  return valkey.eval(UNLOCK, 1, key, token).catch((err) => {
    console.error('unlock of %s failed, key expires on its own', key, err);
  });
}

function sendJson(res, status, body) {
  if (res.headersSent) return;
  res.writeHead(status, { 'content-type': 'application/json' });
  res.end(JSON.stringify(body));
}

/**
 * Wraps an HTTP handler so that only one request per key is processed at a time,
 * e.g. one checkout per cart:
 *
 *   server.on('request', exclusive((req) => `cart:${req.headers['x-cart-id']}`)(checkout));
 *
 * A second click on "Buy now" gets a 409 while the first one is in progress.
 * The handler gets a signal as third argument and must not charge the card any
 * more once it is aborted.
 */
function exclusive(keyOf) {
  return (handler) => async (req, res) => {
    const key = `lock:${keyOf(req)}`;
    const token = randomUUID();
    const asked = performance.now();

    let reply;
    try {
      reply = await valkey.set(key, token, 'PX', TTL_MS, 'NX');
    } catch (err) {
      await unlock(key, token); // in case only the answer got lost
      return sendJson(res, 503, { error: 'lock service unavailable' });
    }
    if (reply !== 'OK') {
      return sendJson(res, 409, { error: 'checkout already in progress' });
    }

    const validMs = TTL_MS - MARGIN_MS - (performance.now() - asked);
    if (validMs <= 0) {
      await unlock(key, token);
      return sendJson(res, 503, { error: 'lock service too slow' });
    }

    const controller = new AbortController();
    const timer = setTimeout(() => controller.abort(new Error('lock expired')), validMs);
    try {
      return handler(req, res, controller.signal);
    } catch (err) {
      console.error('handler for %s failed', key, err);
      return sendJson(res, 500, { error: 'internal error' });
    } finally {
      // whatever happened above, the cart must be usable again
      clearTimeout(timer);
      await unlock(key, token);
    }
  };
}

module.exports = { exclusive };
