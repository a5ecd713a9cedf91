'use strict';

const { randomUUID } = require('node:crypto');
const Koa = require('koa');
const Router = require('@koa/router');
const { koaBody } = require('koa-body');
const Redis = require('ioredis');
const { Pool } = require('pg');

const redis = new Redis(process.env.REDIS_URL);
const pool = new Pool({
  connectionTimeoutMillis: 2_000,
  statement_timeout: 3_000,
  query_timeout: 3_000,
});

const LOCK_MS = 20_000;

const app = new Koa();
const router = new Router();

async function freeSeats(loungeId) {
  const { rows } = await pool.query(
    `SELECT l.seats - count(p.id) AS free
       FROM lounges l LEFT JOIN passes p ON p.lounge_id = l.id AND p.valid_on = current_date
      WHERE l.id = $1 GROUP BY l.seats`,
    [loungeId],
  );
  return rows.length ? Number(rows[0].free) : null;
}

// Day pass at the lounge door. The seat count is not a constraint in the
// database (walk-ins, staff), so passes for one lounge are sold one by one.
router.post('/lounges/:loungeId/passes', async (ctx) => {
  const { loungeId } = ctx.params;
  const { bookingRef, seat } = ctx.request.body;
  const lockKey = `lounge:${loungeId}:lock`;
  const requestId = randomUUID();

  try {
    const locked = await redis.set(lockKey, requestId, 'PX', LOCK_MS, 'NX');
    if (locked !== 'OK') {
      ctx.status = 429;
      ctx.set('Retry-After', '1');
      ctx.body = { error: 'Another pass is being issued, please retry' };
      return;
    }

    const free = await freeSeats(loungeId);
    if (free === null) {
      ctx.status = 404;
      return;
    }
    if (free < 1) {
      ctx.status = 409;
      ctx.body = { error: 'Lounge is full' };
      return;
    }

    const { rows } = await pool.query(
      'INSERT INTO passes (lounge_id, booking_ref, seat, valid_on) VALUES ($1, $2, $3, current_date) RETURNING id',
      [loungeId, bookingRef, seat ?? null],
    );
    ctx.status = 201;
    ctx.body = { passId: rows[0].id, free: free - 1 };
  } finally {
    await redis.del(lockKey);
  }
});

app.use(koaBody());
app.use(router.routes());
app.use(router.allowedMethods());

app.listen(process.env.PORT || 8080);
