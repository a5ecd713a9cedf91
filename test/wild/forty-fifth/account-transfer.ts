import { Hono } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { serve } from '@hono/node-server';
import { zValidator } from '@hono/zod-validator';
import { createClient } from 'redis';
import { Pool } from 'pg';
import { v4 as uuid } from 'uuid';
import { z } from 'zod';

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis error', err));
await redis.connect();

const pool = new Pool({
  connectionString: process.env.DATABASE_URL,
  connectionTimeoutMillis: 3_000,
  statement_timeout: 4_000,
});

const LOCK_TTL = 60_000;
const COMPARE_AND_DELETE = `
  if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
  end
  return 0
`;

async function lock(key: string, maxWait = 8_000): Promise<() => Promise<void>> {
  const token = uuid();
  const deadline = Date.now() + maxWait;
  while (true) {
    const ok = await redis.set(key, token, {
      condition: 'NX',
      expiration: { type: 'PX', value: LOCK_TTL },
    });
    if (ok === 'OK') break;
    if (Date.now() > deadline) throw new HTTPException(409, { message: 'accounts are busy' });
    await new Promise((r) => setTimeout(r, 50 + Math.random() * 50));
  }
  return async () => {
    try {
      await redis.eval(COMPARE_AND_DELETE, { keys: [key], arguments: [token] });
    } catch (err) {
      console.warn('could not release', key, err);
    }
  };
}

const Transfer = z
  .object({ from: z.string().uuid(), to: z.string().uuid(), cents: z.number().int().min(1) })
  .refine((t) => t.from !== t.to, 'from and to are the same account');

const app = new Hono();

app.post('/transfers', zValidator('json', Transfer), async (c) => {
  const { from, to, cents } = c.req.valid('json');

  // sorted, so that A->B and B->A take the same lock and cannot deadlock
  const unlock = await lock(`transfer:${[from, to].sort().join(':')}`);
  const client = await pool.connect().catch(async (err) => {
    await unlock();
    throw err;
  });
  try {
    await client.query('BEGIN');
    const { rows } = await client.query('SELECT id, balance_cents, overdraft_cents FROM accounts WHERE id = ANY($1)', [
      [from, to],
    ]);
    const source = rows.find((r) => r.id === from);
    const target = rows.find((r) => r.id === to);
    if (!source || !target) throw new HTTPException(404, { message: 'unknown account' });

    const left = Number(source.balance_cents) - cents;
    if (left < -Number(source.overdraft_cents)) throw new HTTPException(422, { message: 'insufficient funds' });

    await client.query('UPDATE accounts SET balance_cents = $2 WHERE id = $1', [from, left]);
    await client.query('UPDATE accounts SET balance_cents = $2 WHERE id = $1', [to, Number(target.balance_cents) + cents]);
    const inserted = await client.query(
      'INSERT INTO transfers (from_id, to_id, cents) VALUES ($1, $2, $3) RETURNING id',
      [from, to, cents],
    );
    await client.query('COMMIT');
    return c.json({ id: inserted.rows[0].id, balanceCents: left }, 201);
  } catch (err) {
    await client.query('ROLLBACK').catch(() => undefined);
    throw err;
  } finally {
    client.release();
    await unlock();
  }
});

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000) });
