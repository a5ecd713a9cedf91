import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import Router from '@koa/router';
import knexFactory, { type Knex } from 'knex';
import { createClient } from 'redis';
import { z } from 'zod';

const knex = knexFactory({
  client: 'pg',
  connection: `${process.env.DATABASE_URL}?options=-c%20statement_timeout%3D3000`,
  pool: { min: 1, max: 12 },
});

const redis = createClient({ url: process.env.REDIS_URL });
redis.on('error', (err) => console.error('redis', err));
await redis.connect();

const LOCK_MS = 20_000;
const WAIT_MS = 4_000;

const UNLOCK = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`;

class AccountBusy extends Error {}
class InsufficientCredit extends Error {}

async function withAccountLock<T>(accountId: string, fn: () => Promise<T>): Promise<T> {
  const key = `credit:account:${accountId}`;
  const token = randomUUID();
  const until = Date.now() + WAIT_MS;
  while ((await redis.set(key, token, { NX: true, PX: LOCK_MS })) !== 'OK') {
    if (Date.now() > until) throw new AccountBusy(accountId);
    await sleep(50 + Math.random() * 100);
  }
  try {
    return await fn();
  } finally {
    await redis
      .eval(UNLOCK, { keys: [key], arguments: [token] })
      .catch((err) => console.warn('could not unlock', key, err));
  }
}

interface Booking {
  accountId: string;
  amountCents: number; // negative: credit is used up
  reason: string;
  reference: string;
}

async function book(trx: Knex.Transaction, booking: Booking) {
  const account = await trx('credit_accounts')
    .where({ id: booking.accountId })
    .first<{ balance_cents: string; overdraft_cents: number }>('balance_cents', 'overdraft_cents');
  if (!account) throw new Error(`no credit account ${booking.accountId}`);

  const balance = Number(account.balance_cents) + booking.amountCents;
  if (balance < -account.overdraft_cents) throw new InsufficientCredit(booking.accountId);

  await trx('credit_accounts').where({ id: booking.accountId }).update({ balance_cents: balance });
  await trx('credit_bookings').insert({
    id: randomUUID(),
    account_id: booking.accountId,
    amount_cents: booking.amountCents,
    balance_after_cents: balance,
    reason: booking.reason,
    reference: booking.reference,
  });
  return balance;
}

/** The balance is computed here, not in SQL, because every booking stores the balance after it. */
export async function applyCredit(booking: Booking): Promise<number> {
  return knex.transaction(async (trx) => {
    // reference has a unique index; this just gives a retry its answer
    const known = await trx('credit_bookings').where({ reference: booking.reference }).first('balance_after_cents');
    if (known) return Number(known.balance_after_cents);

    const balance = await withAccountLock(booking.accountId, () => book(trx, booking));

    await trx('outbox').insert({
      id: randomUUID(),
      topic: 'credit.changed',
      payload: JSON.stringify({ accountId: booking.accountId, balance, reason: booking.reason }),
    });
    return balance;
  });
}

const Body = z.object({
  amountCents: z.number().int(),
  reason: z.string().max(200),
  reference: z.string().min(6),
});

export const router = new Router({ prefix: '/accounts' });

router.post('/:id/credit', async (ctx) => {
  const body = Body.parse(ctx.request.body);
  try {
    const balance = await applyCredit({ accountId: ctx.params.id, ...body });
    ctx.body = { balanceCents: balance };
  } catch (err) {
    if (err instanceof InsufficientCredit) {
      ctx.status = 422;
      ctx.body = { error: 'insufficient credit' };
    } else if (err instanceof AccountBusy) {
      ctx.status = 503;
      ctx.set('retry-after', '2');
    } else {
      throw err;
    }
  }
});
