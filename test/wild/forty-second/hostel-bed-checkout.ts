import { randomUUID } from 'node:crypto';
import { Redis } from '@upstash/redis';
import { neon } from '@neondatabase/serverless';
import { Hono } from 'hono';

const redis = Redis.fromEnv();
const sql = neon(process.env.DATABASE_URL!);

// The card charge is capped at 15 s and the two queries are quick, a minute is plenty.
const LOCK_TTL = 60;
const CHARGE_TIMEOUT = 15_000;

const RELEASE = `
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("del", KEYS[1])
end
return 0`;

async function lockBed(bedId: string, night: string): Promise<(() => Promise<void>) | null> {
  const key = `hostel:bed:${bedId}:${night}`;
  const token = `h-${randomUUID()}`;
  const ok = await redis.set(key, token, { nx: true, px: LOCK_TTL });
  if (ok !== 'OK') return null;
  return async () => {
    try {
      await redis.eval(RELEASE, [key], [token]);
    } catch (err) {
      console.warn('bed lock not released', key, err);
    }
  };
}

async function charge(cardToken: string, cents: number, description: string): Promise<string> {
  const res = await fetch('https://payments.example.com/v1/charges', {
    method: 'POST',
    headers: {
      authorization: `Bearer ${process.env.PAYMENT_KEY}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ source: cardToken, amount: cents, currency: 'eur', description }),
    signal: AbortSignal.timeout(CHARGE_TIMEOUT),
  });
  if (!res.ok) throw new Error(`charge declined (${res.status})`);
  const { id } = (await res.json()) as { id: string };
  return id;
}

const app = new Hono();

app.post('/beds/:bed/nights/:night/checkout', async (c) => {
  const { bed, night } = c.req.param();
  const { guestId, cardToken } = await c.req.json<{ guestId: string; cardToken: string }>();

  const unlock = await lockBed(bed, night);
  if (!unlock) return c.json({ error: 'somebody else is booking this bed' }, 409);

  try {
    const taken = await sql`SELECT 1 FROM stays WHERE bed_id = ${bed} AND night = ${night}`;
    if (taken.length) return c.json({ error: 'bed is taken' }, 410);

    const [price] = await sql`SELECT cents FROM bed_prices WHERE bed_id = ${bed} AND night = ${night}`;
    if (!price) return c.json({ error: 'not for sale' }, 404);

    const chargeId = await charge(cardToken, price.cents, `bed ${bed}, ${night}`);
    await sql`INSERT INTO stays (bed_id, night, guest_id, charge_id) VALUES (${bed}, ${night}, ${guestId}, ${chargeId})`;
    return c.json({ chargeId }, 201);
  } catch (err) {
    console.error('checkout', bed, night, err);
    return c.json({ error: 'checkout failed' }, 502);
  } finally {
    await unlock();
  }
});

export default app;
