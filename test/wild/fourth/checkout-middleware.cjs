const { randomUUID } = require('crypto');
const { createClient } = require('redis');

const LUA_UNLOCK = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end`;

class CheckoutLock {
  constructor(url = process.env.REDIS_URL) {
    this.client = createClient({ url });
    this.client.on('error', (err) => console.error('checkout redis:', err.message));
    this.connected = null;
  }

  redis() {
    if (!this.connected) this.connected = this.client.connect();
    return this.connected;
  }

  async lock(customerId, ttlMs) {
    const redis = await this.redis();
    const token = randomUUID();
    const key = `checkout:${customerId}`;
    const reply = await redis.set(key, token, { NX: true, PX: ttlMs });
    if (reply !== 'OK') return null;
    return async () => {
      await redis.eval(LUA_UNLOCK, { keys: [key], arguments: [token] });
    };
  }
}

/** One checkout per customer at a time; answers 409 while another is running. */
function singleCheckout(locks, { ttlMs = 30_000, onConflict } = {}) {
  return async function singleCheckoutMiddleware(req, res, next) {
    let unlock;
    try {
      unlock = await locks.lock(req.user.id, ttlMs);
    } catch (err) {
      return next(err);
    }
    if (!unlock) {
      if (onConflict) onConflict(req.user.id);
      return res.status(409).json({ error: 'checkout_in_progress' });
    }

    let once = false;
    const done = () => {
      if (once) return;
      once = true;
      unlock().catch((err) => console.warn('unlock failed', err.message));
    };
    // the handler has answered; a client that merely hangs up does not end it
    res.once('finish', done);
    return next();
  };
}

function requestId(req, res, next) {
  req.id = req.headers['x-request-id'] || randomUUID();
  res.setHeader('x-request-id', req.id);
  next();
}

module.exports = { CheckoutLock, singleCheckout, requestId };
