import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Hono } from 'hono';
import knex from 'knex';
import pino from 'pino';
import { createClient } from 'redis';
import { z } from 'zod';

const log = pino({ name: 'ledger' });

const redis = createClient({ url: process.env.REDIS_URL, disableOfflineQueue: true });
redis.on('error', (err) => log.error({ err }, 'redis'));
await redis.connect();

const db = knex({
  client: 'pg',
  connection: {
    connectionString: process.env.DATABASE_URL,
    statement_timeout: 2_000,
    query_timeout: 2_500,
  },
  acquireConnectionTimeout: 2_000,
});

// begin, select, two updates, insert, commit (or rollback): 7 * 2.5 s + 2 s for
// the connection. Together with the time to get both locks this stays under 25 s.
const TTL_MS = 40_000;
const WAIT_MS = 3_000;

const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

class AccountsBusy extends Error {}

async function withAccounts<T>(ids: number[], fn: () => Promise<T>): Promise<T> {
  const keys = [...new Set(ids)].map((id) => `acct:${id}`).sort();
  const token = randomUUID();
  const startedAt = performance.now();
  const tried: string[] = [];

  try {
    for (const key of keys) {
      tried.push(key);
      while ((await redis.set(key, token, { NX: true, PX: TTL_MS })) !== 'OK') {
        if (performance.now() - startedAt > WAIT_MS) throw new AccountsBusy(key);
        await sleep(20 + Math.random() * 40);
      }
    }
    // A reply that hung on the wire has eaten into the TTL.
    if (performance.now() - startedAt > WAIT_MS + 2_000) throw new AccountsBusy(keys.join());
    return await fn();
  } finally {
    for (const key of tried.reverse()) {
      await redis
        .eval(UNLOCK, { keys: [key], arguments: [token] })
        .catch((err) => log.warn({ err, key }, 'account unlock'));
    }
  }
}

const Body = z.object({
  from: z.number().int().positive(),
  to: z.number().int().positive(),
  cents: z.number().int().positive(),
  reference: z.string().max(140),
});

export const app = new Hono();

app.post('/transfers', async (c) => {
  const parsed = Body.safeParse(await c.req.json());
  if (!parsed.success) return c.json({ error: 'invalid' }, 400);
  const { from, to, cents, reference } = parsed.data;
  if (from === to) return c.json({ error: 'same_account' }, 400);

  try {
    const id = await withAccounts([from, to], () =>
      db.transaction(async (trx) => {
        const rows = await trx('accounts').whereIn('id', [from, to]).select('id', 'balance_cents');
        const src = rows.find((r) => Number(r.id) === from);
        const dst = rows.find((r) => Number(r.id) === to);
        if (!src || !dst) return null;
        if (Number(src.balance_cents) < cents) return null;

        await trx('accounts').where({ id: from }).update({ balance_cents: Number(src.balance_cents) - cents });
        await trx('accounts').where({ id: to }).update({ balance_cents: Number(dst.balance_cents) + cents });
        const [row] = await trx('transfers').insert({ from, to, cents, reference }).returning('id');
        return row.id as number;
      }),
    );
    if (id === null) return c.json({ error: 'refused' }, 422);
    return c.json({ id }, 201);
  } catch (err) {
    if (err instanceof AccountsBusy) return c.json({ error: 'busy' }, 423);
    log.error({ err, from, to }, 'transfer failed');
    return c.json({ error: 'internal' }, 500);
  }
});
