import Koa from 'koa';
import Redis from 'ioredis';
import { Redlock, type Lock } from '@sesamecare-oss/redlock';
import { Pool } from 'pg';
import winston from 'winston';

const log = winston.createLogger({
  defaultMeta: { service: 'coupons' },
  transports: [new winston.transports.Console()],
});

const redis = new Redis(process.env.REDIS_URL!);
const redlock = new Redlock([redis], { retryCount: 25, retryDelay: 120, retryJitter: 60 });
redlock.on('error', (err) => log.debug('redlock', { message: err.message }));

// connect plus five statements stay below the fifteen seconds of the guard
const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 1_000,
  statement_timeout: 1_500,
  query_timeout: 2_000,
});

class CouponGuard {
  private lease?: Lock;

  constructor(private readonly ttlMs = 15_000) {}

  async enter(code: string): Promise<void> {
    this.lease = await redlock.acquire([`coupon:${code}`], this.ttlMs);
  }

  async leave(): Promise<void> {
    try {
      await this.lease?.release();
    } catch (err) {
      log.warn('guard had run out', { message: (err as Error).message });
    }
  }
}

const guard = new CouponGuard();

async function redeem(code: string, basket: string): Promise<{ ok: boolean; percent?: number; reason?: string }> {
  const client = await pool.connect();
  let failed: Error | undefined;
  try {
    await client.query('begin');
    const { rows } = await client.query(
      `select c.percent, c.max_uses, count(r.basket_id)::int as used
         from coupons c left join redemptions r on r.code = c.code
        where c.code = $1 and c.valid_until > now()
        group by c.percent, c.max_uses`,
      [code],
    );
    if (rows.length === 0 || rows[0].used >= rows[0].max_uses) {
      await client.query('rollback');
      return { ok: false, reason: rows.length === 0 ? 'unknown' : 'used up' };
    }
    await client.query('insert into redemptions (code, basket_id, redeemed_at) values ($1, $2, now())', [code, basket]);
    await client.query('update baskets set discount_percent = $2 where id = $1', [basket, rows[0].percent]);
    await client.query('commit');
    return { ok: true, percent: rows[0].percent };
  } catch (err) {
    failed = err as Error;
    throw err;
  } finally {
    client.release(failed);
  }
}

const app = new Koa();

app.use(async (ctx) => {
  const match = /^\/baskets\/([\w-]+)\/coupons\/([\w-]+)$/.exec(ctx.path);
  if (!match || ctx.method !== 'PUT') {
    ctx.status = 404;
    return;
  }
  const [, basket, rawCode] = match;
  const code = rawCode.toUpperCase();

  try {
    await guard.enter(code);
  } catch {
    ctx.status = 429;
    ctx.body = { error: 'this coupon is very popular right now' };
    return;
  }
  try {
    const result = await redeem(code, basket);
    ctx.status = result.ok ? 200 : 409;
    ctx.body = result;
  } finally {
    await guard.leave();
  }
});

app.listen(Number(process.env.PORT ?? 4000));
