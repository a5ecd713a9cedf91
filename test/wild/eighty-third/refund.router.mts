import { initTRPC, TRPCError } from '@trpc/server';
import Redis from 'ioredis';
import { Mutex, TimeoutError } from 'redis-semaphore';
import Stripe from 'stripe';
import { z } from 'zod';
import { sql } from '../db.js';

const t = initTRPC.context<{ userId: string }>().create();
const redis = new Redis(process.env.REDIS_URL!);
const stripe = new Stripe(process.env.STRIPE_KEY!, { timeout: 8_000, maxNetworkRetries: 1 });

const Input = z.object({
  orderId: z.string().uuid(),
  requestId: z.string().uuid(),
  cents: z.number().int().positive(),
});

async function refundOrder(input: z.infer<typeof Input>, lost: AbortSignal) {
  const [order] = await sql`select id, charge_id, total_cents from orders where id = ${input.orderId}`;
  if (!order) throw new TRPCError({ code: 'NOT_FOUND' });

  const [{ used }] = await sql`
    select coalesce(sum(cents), 0)::int as used from refunds
     where order_id = ${order.id} and status <> 'failed' and request_id <> ${input.requestId}`;
  if (used + input.cents > order.total_cents) {
    throw new TRPCError({ code: 'BAD_REQUEST', message: 'more than what was paid' });
  }

  await sql`
    insert into refunds (request_id, order_id, cents, status)
    values (${input.requestId}, ${order.id}, ${input.cents}, 'pending')
    on conflict (request_id) do nothing`;
  const [row] = await sql`
    select *, created_at < now() - interval '20 hours' as old from refunds where request_id = ${input.requestId}`;
  if (row.order_id !== order.id || row.cents !== input.cents) throw new TRPCError({ code: 'CONFLICT' });
  // Stripe forgets idempotency keys after a day; support settles the old ones by hand
  if (row.status !== 'pending' || row.old) return row;

  lost.throwIfAborted();
  try {
    const made = await stripe.refunds.create(
      { charge: order.charge_id, amount: row.cents },
      { idempotencyKey: `refund-${row.request_id}` },
    );
    await sql`update refunds set status = 'done', stripe_id = ${made.id} where request_id = ${row.request_id}`;
    return { ...row, status: 'done', stripe_id: made.id };
  } catch (err) {
    if (err instanceof Stripe.errors.StripeInvalidRequestError) {
      await sql`update refunds set status = 'failed' where request_id = ${row.request_id}`;
    }
    throw err;
  }
}

export const refundRouter = t.router({
  create: t.procedure.input(Input).mutation(async ({ input }) => {
    const lost = new AbortController();
    const mutex = new Mutex(redis, `refund:${input.orderId}`, {
      lockTimeout: 30_000,
      refreshInterval: 8_000,
      acquireTimeout: 4_000,
      retryInterval: 100,
      onLockLost: (err) => lost.abort(err),
    });
    try {
      await mutex.acquire();
    } catch (err) {
      if (err instanceof TimeoutError) throw new TRPCError({ code: 'CONFLICT', message: 'refund in progress' });
      throw err;
    }
    try {
      return await refundOrder(input, lost.signal);
    } finally {
      await mutex.release().catch((err) => console.warn('refund lock', err));
    }
  }),
});
