const Koa = require('koa');
const Router = require('@koa/router');
const { bodyParser } = require('@koa/bodyparser');
const Redis = require('ioredis');
const Redlock = require('redlock4');
const seats = require('./models/seats');
const venue = require('./services/venue');

const redis = new Redis({ host: process.env.REDIS_HOST || 'localhost', port: 6379 });
redis.on('error', (err) => console.error('redis', err.message));

const redlock = new Redlock([redis], {
  driftFactor: 0.01,
  retryCount: 15,
  retryDelay: 200,
  retryJitter: 100,
});

redlock.on('clientError', (err) => {
  console.error('A redis error has occurred:', err.message);
});

// Confirming a seat with the venue takes 2-3 seconds, 10 at most (we cut it off there).
const LOCK_TTL = 30;
const VENUE_TIMEOUT = 10 * 1000;

const router = new Router();

router.post('/shows/:show/seats/:seat/book', async (ctx) => {
  const { show, seat } = ctx.params;
  const { customerId } = ctx.request.body;

  let lock;
  try {
    lock = await redlock.lock(`locks:show:${show}:seat:${seat}`, LOCK_TTL);
  } catch (err) {
    if (err.name !== 'LockError') throw err;
    ctx.status = 409;
    ctx.body = { error: 'Somebody else is booking this seat right now' };
    return;
  }

  try {
    const current = await seats.find(show, seat);
    if (!current || current.status !== 'free') {
      ctx.status = 410;
      ctx.body = { error: 'Seat is gone' };
      return;
    }

    const confirmation = await venue.confirm({ show, seat, timeout: VENUE_TIMEOUT });
    await seats.update(show, seat, { status: 'booked', customerId, confirmation: confirmation.code });

    ctx.status = 201;
    ctx.body = { seat, confirmation: confirmation.code };
  } finally {
    // an error here only means that the lock had already gone, so there's nothing to do
    await lock.unlock().catch((err) => console.warn('unlock:', err.message));
  }
});

const app = new Koa();
app.use(bodyParser());
app.use(router.routes());
app.use(router.allowedMethods());

app.listen(3000, () => console.log('listening on 3000'));
