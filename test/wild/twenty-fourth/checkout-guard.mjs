// POST /api/checkout  (edge-friendly: REST client, no sockets)
import { Redis } from '@upstash/redis';

const redis = Redis.fromEnv();

const LOCK_MS = 30_000;
const PSP_TIMEOUT_MS = 10_000;
const MARGIN_MS = 5_000;

const COMPARE_AND_DELETE =
  'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end';

const json = (status, body) =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });

async function charge(cart, idempotencyKey) {
  const res = await fetch(`${process.env.PSP_URL}/v1/charges`, {
    method: 'POST',
    signal: AbortSignal.timeout(PSP_TIMEOUT_MS),
    headers: {
      authorization: `Bearer ${process.env.PSP_SECRET}`,
      'content-type': 'application/json',
      'idempotency-key': idempotencyKey,
    },
    body: JSON.stringify({ amount: cart.totalCents, currency: cart.currency, source: cart.source }),
  });
  if (!res.ok) throw new Error(`psp answered ${res.status}`);
  return res.json();
}

export async function POST(request) {
  const { cartId } = await request.json();
  if (typeof cartId !== 'string' || !/^[\w-]{8,64}$/.test(cartId)) return json(400, { error: 'bad cart id' });

  const lockKey = `checkout:lock:${cartId}`;
  const orderKey = `order:${cartId}`;
  const token = crypto.randomUUID();
  const startedAt = performance.now();

  let got;
  try {
    got = await redis.set(lockKey, token, { nx: true, px: LOCK_MS });
  } catch (err) {
    console.error('checkout lock', err);
    return json(503, { error: 'try again' });
  }
  if (got !== 'OK') return json(409, { error: 'checkout already running' });

  try {
    const prior = await redis.get(orderKey);
    if (prior) return json(200, prior);

    // A submitted cart is immutable: editing it gives the shopper a new cart id.
    const cart = await redis.get(`cart:submitted:${cartId}`);
    if (!cart) return json(404, { error: 'no such cart' });

    // Don't start a charge that could outlive the lock.
    if (performance.now() - startedAt > LOCK_MS - PSP_TIMEOUT_MS - MARGIN_MS) {
      return json(503, { error: 'try again' });
    }
    const paid = await charge(cart, `cart-${cartId}`);

    const order = { cartId, chargeId: paid.id, items: cart.items, totalCents: cart.totalCents };
    const stored = await redis.set(orderKey, order, { nx: true });
    return json(201, stored === 'OK' ? order : await redis.get(orderKey));
  } catch (err) {
    // Safe to repeat: the charge carries the cart's idempotency key.
    console.error(`checkout ${cartId}`, err);
    return json(502, { error: 'payment not confirmed, try again' });
  } finally {
    await redis
      .eval(COMPARE_AND_DELETE, [lockKey], [token])
      .catch((err) => console.warn(`release ${lockKey}`, err));
  }
}
