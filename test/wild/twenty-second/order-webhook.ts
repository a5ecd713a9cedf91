import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { Redis } from '@upstash/redis';

// app/api/webhooks/orders/route.ts
const redis = Redis.fromEnv();

const LOCK_TTL_MS = 60_000;
const BUDGET_MS = 40_000;

const RELEASE = `
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
end
return 0
`;

function isAuthentic(rawBody: string, signature: string | null): boolean {
  const expected = createHmac('sha256', process.env.WEBHOOK_SECRET ?? '').update(rawBody).digest();
  const given = Buffer.from(signature ?? '', 'base64');
  return given.length === expected.length && timingSafeEqual(given, expected);
}

/** Tries to take the lock; resolves to false while another delivery is being handled. */
async function acquireLock(key: string, token: string): Promise<boolean> {
  try {
    const reply = await redis.set(key, token, { nx: true, px: LOCK_TTL_MS });
    return reply === 'OK';
  } catch (err) {
    // Resilience: a Redis hiccup must never turn into a lost order.
    console.warn(`[orders] could not reach Redis for ${key}`, err);
    return true;
  }
}

/** Atomic compare-and-delete, only ever removes our own lock. */
async function releaseLock(key: string, token: string): Promise<void> {
  try {
    await redis.eval(RELEASE, [key], [token]);
  } catch (err) {
    console.warn(`[orders] could not release ${key}, it will expire`, err);
  }
}

async function erp(path: string, init: RequestInit, deadline: number): Promise<Response> {
  const remaining = Math.floor(deadline - performance.now());
  if (remaining <= 0) throw new Error('No time left for the ERP');
  return fetch(`${process.env.ERP_URL}${path}`, { ...init, signal: AbortSignal.timeout(remaining) });
}

/**
 * The shop delivers webhooks more than once, sometimes at the same time. The
 * lookup and the creation in the ERP happen under a lock per order, so that an
 * order is created only once.
 */
export async function POST(req: Request): Promise<Response> {
  const rawBody = await req.text();
  if (!isAuthentic(rawBody, req.headers.get('x-shop-hmac-sha256'))) {
    return new Response('Invalid signature', { status: 401 });
  }
  const order = JSON.parse(rawBody) as { id: number; lines: unknown[] };

  const key = `lock:order-webhook:${order.id}`;
  const token = randomUUID();
  // The budget ends well before the lock does, even if Redis answers slowly.
  const deadline = performance.now() + BUDGET_MS;
  if (!(await acquireLock(key, token))) {
    // The shop will deliver again later.
    return new Response('In progress', { status: 409 });
  }

  try {
    const lookup = await erp(`/orders?reference=${order.id}`, {}, deadline);
    if (!lookup.ok) throw new Error(`ERP lookup answered ${lookup.status}`);
    const found = (await lookup.json()) as unknown[];
    if (found.length > 0) return Response.json({ created: false });

    const created = await erp('/orders', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ reference: order.id, lines: order.lines }),
    }, deadline);
    if (!created.ok) throw new Error(`ERP answered ${created.status}`);
    return Response.json({ created: true });
  } catch (err) {
    console.error(`[orders] ${order.id} failed`, err);
    return new Response('Try again', { status: 500 });
  } finally {
    await releaseLock(key, token);
  }
}
