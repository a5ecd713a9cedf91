import { randomUUID } from 'node:crypto';
import Redis from 'ioredis';

// POST /payments with an Idempotency-Key. The provider gets the same key, and
// answers a repeated charge with the first result, so a retry is always safe.
const PENDING_MS = 60_000;
const CHARGE_BUDGET_MS = 40_000;
const DONE_MS = 24 * 60 * 60 * 1000;

const FINISH = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0`;

const ABANDON = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

export function connect() {
  const redis = new Redis(process.env.REDIS_URL);
  redis.on('error', (err) => console.error('redis', err.message));
  return redis;
}

/**
 * @param {import('ioredis').Redis} redis
 * @param {{ charge(order: object, opts: { idempotencyKey: string, signal: AbortSignal }):
 *           Promise<{ id: string, status: 'captured' | 'declined' }> }} provider
 */
export function paymentHandler(redis, provider) {
  return async function handle(req, res) {
    const clientKey = req.headers['idempotency-key'];
    if (typeof clientKey !== 'string' || clientKey.length < 16) {
      return res.status(400).json({ error: 'Idempotency-Key is required' });
    }
    const key = `idem:payment:${req.merchantId}:${clientKey}`;
    const pending = `pending:${randomUUID()}`;
    const startedAt = Date.now();

    let reply;
    try {
      reply = await redis.set(key, pending, 'PX', PENDING_MS, 'NX');
    } catch (err) {
      await abandon(redis, key, pending);
      return res.status(503).json({ error: 'payments are unavailable' });
    }

    if (reply !== 'OK') {
      const current = await redis.get(key).catch(() => null);
      if (current !== null && current.startsWith('done:')) {
        return res.status(200).json(JSON.parse(current.slice('done:'.length)));
      }
      return res.status(409).json({ error: 'the payment is in progress, try again later' });
    }

    let payment;
    try {
      const left = startedAt + CHARGE_BUDGET_MS - Date.now();
      if (left <= 0) throw new Error('no time left for the charge');
      payment = await provider.charge(req.body, {
        idempotencyKey: `${req.merchantId}:${clientKey}`,
        signal: AbortSignal.timeout(left),
      });
    } catch (err) {
      console.error('charge failed', key, err);
      await abandon(redis, key, pending);
      return res.status(502).json({ error: 'the charge did not go through, try again' });
    }

    try {
      const kept = await redis.eval(FINISH, 1, key, pending, `done:${JSON.stringify(payment)}`, DONE_MS);
      if (kept !== 1) console.warn('idempotency record was not ours any more', key);
    } catch (err) {
      // The charge stands; a repeat is answered by the provider's own record.
      console.warn('idempotency record not stored', key, err);
    }
    return res.status(200).json(payment);
  };
}

async function abandon(redis, key, pending) {
  try {
    await redis.eval(ABANDON, 1, key, pending);
  } catch (err) {
    console.warn('idempotency record left to its TTL', key, err);
  }
}
