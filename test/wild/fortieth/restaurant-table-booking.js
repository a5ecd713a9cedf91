import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import Koa from 'koa';
import Router from '@koa/router';
import bodyParser from 'koa-bodyparser';
import { createClient } from 'redis';
import pg from 'pg';

const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3000,
  query_timeout: 3000,
});
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('[redis]', err.message));
await redis.connect();

const OWNER = `${os.hostname()}:${process.pid}:${Date.now()}`;
const LOCK_MS = 20_000;

const RELEASE = `
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0`;

async function lockEvening(key) {
  for (let i = 0; i < 25; i += 1) {
    const ok = await redis.set(key, OWNER, { NX: true, PX: LOCK_MS });
    if (ok === 'OK') return true;
    // the answer to an earlier SET may have been lost in a reconnect
    if ((await redis.get(key)) === OWNER) return true;
    await sleep(80 + Math.random() * 80);
  }
  return false;
}

async function unlockEvening(key) {
  await redis.eval(RELEASE, { keys: [key], arguments: [OWNER] });
}

const router = new Router({ prefix: '/restaurants/:restaurant' });

router.post('/bookings', async (ctx) => {
  const { restaurant } = ctx.params;
  const { date, guests, name, phone } = ctx.request.body;
  ctx.assert(Number.isInteger(guests) && guests > 0 && guests <= 12, 422, 'guests');
  ctx.assert(/^\d{4}-\d{2}-\d{2}$/.test(date), 422, 'date');

  const key = `evening:${restaurant}:${date}`;
  if (!(await lockEvening(key))) ctx.throw(503, 'please try again');

  try {
    const { rows } = await pool.query(
      `SELECT t.id
         FROM tables t
        WHERE t.restaurant_id = $1
          AND t.seats >= $2
          AND NOT EXISTS (SELECT 1 FROM bookings b WHERE b.table_id = t.id AND b.date = $3)
        ORDER BY t.seats
        LIMIT 1`,
      [restaurant, guests, date],
    );
    if (rows.length === 0) {
      ctx.status = 409;
      ctx.body = { error: 'fully booked' };
      return;
    }
    const booked = await pool.query(
      `INSERT INTO bookings (table_id, date, guests, name, phone)
       VALUES ($1, $2, $3, $4, $5) RETURNING id`,
      [rows[0].id, date, guests, name, phone],
    );
    ctx.status = 201;
    ctx.body = { id: booked.rows[0].id, table: rows[0].id };
  } finally {
    await unlockEvening(key).catch((err) => console.warn('[lock]', key, err.message));
  }
});

const app = new Koa();
app.use(bodyParser());
app.use(router.routes());
app.use(router.allowedMethods());
app.listen(Number(process.env.PORT ?? 8080));
