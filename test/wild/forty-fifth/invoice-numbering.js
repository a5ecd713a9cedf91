import Koa from 'koa';
import Router from '@koa/router';
import bodyParser from 'koa-bodyparser';
import pg from 'pg';
import pino from 'pino';
import { createClient } from 'redis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const log = pino({ name: 'invoicing' });
const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => log.error({ err }, 'redis'));

const pool = new pg.Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3000,
  statement_timeout: 5000,
});

const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

async function acquire(key, ttl, wait) {
  const token = randomUUID();
  const giveUpAt = Date.now() + wait;
  for (;;) {
    const reply = await redis.set(key, token, { NX: true, PX: ttl });
    if (reply === 'OK') return token;
    if (Date.now() > giveUpAt) {
      throw Object.assign(new Error('invoice series is busy'), { status: 503, expose: true });
    }
    await sleep(40 + Math.random() * 80);
  }
}

async function withLock(key, fn, { ttl = 60_000, wait = 10_000 } = {}) {
  const token = await acquire(key, ttl, wait);
  try {
    return fn();
  } finally {
    await redis
      .eval(RELEASE, { keys: [key], arguments: [token] })
      .catch((err) => log.warn({ err, key }, 'release failed, lock will expire'));
  }
}

async function nextNumber(client, tenantId) {
  const year = new Date().getUTCFullYear();
  const { rows } = await client.query(
    'select prefix, year, last_no from invoice_series where tenant_id = $1',
    [tenantId],
  );
  if (!rows.length) throw Object.assign(new Error('no series configured'), { status: 422, expose: true });
  const no = rows[0].year === year ? rows[0].last_no + 1 : 1;
  await client.query('update invoice_series set year = $2, last_no = $3 where tenant_id = $1', [tenantId, year, no]);
  return `${rows[0].prefix}-${year}-${String(no).padStart(6, '0')}`;
}

const router = new Router();

// Tax law wants one gapless series per tenant, so issuing goes one at a time.
router.post('/tenants/:tenantId/invoices', async (ctx) => {
  const { tenantId } = ctx.params;
  const { customerId, lines } = ctx.request.body;
  const total = lines.reduce((sum, l) => sum + l.quantity * l.unitCents, 0);

  ctx.body = await withLock(`invoice-series:${tenantId}`, async () => {
    const client = await pool.connect();
    try {
      await client.query('begin');
      const number = await nextNumber(client, tenantId);
      const { rows } = await client.query(
        `insert into invoices (tenant_id, customer_id, number, total_cents, lines)
         values ($1, $2, $3, $4, $5) returning id, number`,
        [tenantId, customerId, number, total, JSON.stringify(lines)],
      );
      await client.query('commit');
      return rows[0];
    } catch (err) {
      await client.query('rollback').catch(() => {});
      throw err;
    } finally {
      client.release();
    }
  });
  ctx.status = 201;
});

const app = new Koa();
app.use(bodyParser());
app.use(router.routes());

await redis.connect();
app.listen(Number(process.env.PORT ?? 3000));
