import Redis from 'ioredis';
import Koa from 'koa';
import pino from 'pino';
import { Mutex } from 'redis-semaphore';
import { pool } from './db.mjs';

const log = pino({ name: 'statements' });
const redis = new Redis(process.env.REDIS_URL);

const BUILD_LIMIT_MS = Number(process.env.STATEMENT_LIMIT_MS ?? 25_000);

class BuildTimeout extends Error {
  status = 504;
}

function limit(ms, what) {
  let timer;
  const promise = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new BuildTimeout(`${what} took more than ${ms} ms`)), ms);
  });
  return { promise, clear: () => clearTimeout(timer) };
}

/**
 * Rebuilds the lines of a monthly statement from the bookings: old lines out,
 * new lines in with running balance. Big corporate accounts have 100k bookings.
 */
async function buildStatement(accountId, month) {
  const [[opening]] = await pool.query(
    'SELECT closing_cents FROM statements WHERE account_id = ? AND month < ? ORDER BY month DESC LIMIT 1',
    [accountId, month],
  );
  let balance = Number(opening?.closing_cents ?? 0);

  await pool.query('DELETE FROM statement_lines WHERE account_id = ? AND month = ?', [accountId, month]);

  let after = 0;
  let lines = 0;
  for (;;) {
    const [bookings] = await pool.query(
      'SELECT id, cents, text FROM bookings WHERE account_id = ? AND month = ? AND id > ? ORDER BY id LIMIT 500',
      [accountId, month, after],
    );
    if (bookings.length === 0) break;
    const rows = bookings.map((b) => {
      balance += Number(b.cents);
      return [accountId, month, ++lines, b.id, b.cents, balance, b.text];
    });
    await pool.query(
      'INSERT INTO statement_lines (account_id, month, line_no, booking_id, cents, balance_cents, text) VALUES ?',
      [rows],
    );
    after = bookings.at(-1).id;
  }

  await pool.query('REPLACE INTO statements (account_id, month, closing_cents, line_count) VALUES (?, ?, ?, ?)', [
    accountId,
    month,
    balance,
    lines,
  ]);
  return { accountId, month, lines, closingCents: balance };
}

const app = new Koa();

app.use(async (ctx) => {
  const match = /^\/accounts\/(\d+)\/statements\/(\d{4}-\d{2})$/.exec(ctx.path);
  if (!match || ctx.method !== 'PUT') ctx.throw(404);
  const [, accountId, month] = match;

  // The mutex renews itself every 8 s while it is held.
  const mutex = new Mutex(redis, `statement:${accountId}`, { lockTimeout: 30_000, refreshInterval: 8_000 });
  if (!(await mutex.tryAcquire())) ctx.throw(409, 'statement is being built');

  // Clients give up after half a minute, and nobody must be locked out for longer than that.
  const timeLimit = limit(BUILD_LIMIT_MS, `statement ${accountId}/${month}`);
  try {
    ctx.body = await Promise.race([buildStatement(accountId, month), timeLimit.promise]);
  } catch (err) {
    log.error({ err, accountId, month }, 'statement not built');
    throw err;
  } finally {
    timeLimit.clear();
    await mutex.release();
  }
});

app.listen(Number(process.env.PORT ?? 8080));
