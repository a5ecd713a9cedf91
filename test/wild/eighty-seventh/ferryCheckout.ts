// POST /checkout, widget sends an Idempotency-Key per basket
import Koa from 'koa';
import Router from '@koa/router';
import bodyParser from 'koa-bodyparser';
import Stripe from 'stripe';
import { createClient } from 'redis';
import { Pool } from 'pg';

const stripe = new Stripe(process.env.STRIPE_KEY!, { timeout: 15000, maxNetworkRetries: 0 });
const pool = new Pool({ connectionString: process.env.DATABASE_URL, max: 20, statement_timeout: 8000 });
const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (e) => console.log('redis', e.message));

const DAY = 24 * 3600;
const router = new Router();

async function fareFor(sailing: string, pax: number, car: boolean): Promise<number> {
  const { rows } = await pool.query('SELECT pax_cents, car_cents FROM sailings WHERE id = $1', [sailing]);
  if (!rows[0]) throw Object.assign(new Error('no such sailing'), { status: 404 });
  return rows[0].pax_cents * pax + (car ? rows[0].car_cents : 0);
}

router.post('/checkout', async (ctx) => {
  const idem = ctx.get('Idempotency-Key');
  if (!/^[\w-]{16,64}$/.test(idem)) ctx.throw(400, 'Idempotency-Key missing');
  const { sailing, pax, car, paymentMethod, email } = ctx.request.body as any;
  const amount = await fareFor(sailing, Number(pax), !!car);

  const key = `ferry:idem:${idem}`;
  const first = await redis.set(key, 'pending', { NX: true, EX: DAY });
  if (first !== 'OK') {
    const prev = await redis.get(key);
    if (!prev || prev === 'pending') {
      ctx.status = 409;
      ctx.body = { error: 'in progress' };
      return;
    }
    ctx.set('Idempotent-Replay', '1');
    ctx.body = JSON.parse(prev);
    return;
  }

  try {
    const pi = await stripe.paymentIntents.create({
      amount,
      currency: 'eur',
      payment_method: paymentMethod,
      confirm: true,
      error_on_requires_action: true,
      receipt_email: email,
      automatic_payment_methods: { enabled: true, allow_redirects: 'never' },
      metadata: { sailing, pax: String(pax) },
    });
    const { rows } = await pool.query(
      'INSERT INTO bookings (sailing_id, pax, car, email, payment_intent, cents) VALUES ($1,$2,$3,$4,$5,$6) RETURNING id',
      [sailing, pax, !!car, email, pi.id, amount],
    );
    const out = { booking: rows[0].id, status: pi.status };
    await redis.set(key, JSON.stringify(out), { EX: DAY });
    console.log('booked', rows[0].id, pi.id);
    ctx.status = 201;
    ctx.body = out;
  } catch (e: any) {
    // customer may press the button again
    console.log('checkout failed', idem, e.message);
    await redis.del(key).catch((e2) => console.log('idem del', e2.message));
    ctx.status = e.type === 'StripeCardError' ? 402 : 502;
    ctx.body = { error: e.type === 'StripeCardError' ? e.message : 'please try again' };
  }
});

const app = new Koa();
app.use(bodyParser());
app.use(router.routes());

redis.connect().then(() => app.listen(4000, () => console.log('checkout on 4000')));
